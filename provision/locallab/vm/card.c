/* A PCI function with NVIDIA's ids for a virtual machine of a local lab.
 *
 * Preloaded into an unmodified qemu (LD_PRELOAD), it registers one more device type, "lab-gpu": a
 * child of qemu's own teaching device "edu" with other ids, another class and a BAR0 of a card's
 * size. Every register reads as all ones, as those of a card do that has fallen off the bus: drivers
 * that match the ids load, look at it and refuse it. Compiled by card.py with -DDEVICE=0x1eb8 and
 * the like; it needs no headers of qemu, for it uses exported functions alone and finds the ids in
 * the class by their values.
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

/* exec/memory.h: the members of MemoryRegionOps that are set here lie first. */
struct region_ops {
    uint64_t (*read)(void *opaque, uint64_t address, unsigned size);
    void (*write)(void *opaque, uint64_t address, uint64_t data, unsigned size);
    void *others[16];
};

extern void *type_register_static(const struct type_info *info);
extern void register_module_init(void (*function)(void), int type);
extern void memory_region_init_io(void *region, void *owner, const struct region_ops *ops,
                                  void *opaque, const char *name, uint64_t size);
extern void pci_register_bar(void *device, int number, uint8_t type, void *region);

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

typedef void realize_function(void *device, void **error);

/* More than a PCIDeviceClass before its ids (qemu 6.1 to 10.0: 200 to 240 bytes). */
enum { SEARCHED = 320 };
/* realize, exit, config_read, config_write: four pointers before the ids. */
enum { REALIZE_BEFORE_IDS = 4 * sizeof(void *) };
/* More than a MemoryRegion (272 bytes in qemu 7.2). */
enum { REGION_SIZE = 4096 };
enum { BAR0_SIZE = 16 << 20 };

static realize_function *edu_realize;

static uint64_t all_ones(void *opaque, uint64_t address, unsigned size)
{
    (void)opaque, (void)address, (void)size;
    return UINT64_MAX;
}

static void ignored(void *opaque, uint64_t address, uint64_t data, unsigned size)
{
    (void)opaque, (void)address, (void)data, (void)size;
}

static const struct region_ops ops = { .read = all_ones, .write = ignored };

/* edu's own BAR0 has 1 MiB; nouveau reads the straps of a card beyond it. */
static void realize(void *device, void **error)
{
    void *region = calloc(1, REGION_SIZE);

    edu_realize(device, error);
    if (!region || (error && *error))
        return;
    memory_region_init_io(region, device, &ops, NULL, "lab-gpu", BAR0_SIZE);
    pci_register_bar(device, 0, 0, region);
}

static void class_init(void *class_pointer, void *data)
{
    const struct ids edu = { 0x1234, 0x11e8, 0x10, 0x00ff, 0, 0 };
    size_t offset;

    (void)data;
    for (offset = 0; offset < SEARCHED; offset += 2) {
        struct ids *ids = (struct ids *)((char *)class_pointer + offset);
        if (ids->vendor == edu.vendor && ids->device == edu.device
            && ids->revision == edu.revision && ids->class_id == edu.class_id) {
            void *place = (char *)ids - REALIZE_BEFORE_IDS;
            realize_function *replacement = realize;
            memcpy(&edu_realize, place, sizeof edu_realize);
            memcpy(place, &replacement, sizeof replacement);
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
