/* A PCI function with NVIDIA's ids for a virtual machine of a local lab.
 *
 * Preloaded into an unmodified qemu (LD_PRELOAD), it registers one more device type, "lab-gpu": a
 * child of qemu's own teaching device "edu" with other ids and another class. It has a memory BAR
 * and an interrupt and nothing behind them: drivers that match the ids load, look at it and refuse
 * it. Compiled by card.py with -DDEVICE=0x1eb8 and the like; it needs no headers of qemu, for it
 * uses two exported functions and finds the ids in the class by their values.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* qom/object.h: the members of TypeInfo, in order, as they have been since qemu 1.1. */
struct type_info {
    const char *name;
    const char *parent;
    size_t instance_size;
    size_t instance_align;
    void (*instance_init)(void *);
    void (*instance_post_init)(void *);
    void (*instance_finalize)(void *);
    _Bool abstract;
    size_t class_size;
    void (*class_init)(void *, void *);
    void (*class_base_init)(void *, void *);
    void *class_data;
    void *interfaces;
};

extern void *type_register_static(const struct type_info *info);
extern void register_module_init(void (*function)(void), int type);

enum { MODULE_INIT_QOM = 3 };

/* hw/pci/pci_device.h: vendor_id, device_id, revision, class_id, subsystem_vendor_id, subsystem_id
 * of PCIDeviceClass lie in this order; these are edu's (hw/misc/edu.c). */
struct ids {
    uint16_t vendor;
    uint16_t device;
    uint8_t revision;
    uint16_t class_id;
    uint16_t subsystem_vendor;
    uint16_t subsystem;
};

/* More than a PCIDeviceClass before its ids (qemu 6.1 to 10.0: 200 to 240 bytes). */
enum { SEARCHED = 320 };

static void class_init(void *class_pointer, void *data)
{
    const struct ids edu = { 0x1234, 0x11e8, 0x10, 0x00ff, 0, 0 };
    size_t offset;

    (void)data;
    for (offset = 0; offset < SEARCHED; offset += 2) {
        struct ids *ids = (struct ids *)((char *)class_pointer + offset);
        if (ids->vendor == edu.vendor && ids->device == edu.device
            && ids->revision == edu.revision && ids->class_id == edu.class_id) {
            ids->vendor = 0x10de;
            ids->device = DEVICE;
            ids->revision = 0xa1;
            ids->class_id = CLASS;
            ids->subsystem_vendor = 0x10de;
            ids->subsystem = SUBSYSTEM;
            return;
        }
    }
    fputs("lab-gpu: this qemu keeps the ids of a PCI device elsewhere\n", stderr);
    exit(1);
}

static const struct type_info info = {
    .name = "lab-gpu",
    .parent = "edu",
    .class_init = class_init,
};

static void register_types(void)
{
    type_register_static(&info);
}

__attribute__((constructor)) static void preload(void)
{
    register_module_init(register_types, MODULE_INIT_QOM);
}
