/* What a GPU is: its name and numbers, and its place and link on the PCI bus. */

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *text, unsigned int length) {
    char name[128];
    DEVICE(device);
    snprintf(name, sizeof name, "%s", gpu.name);
    if (device->instance != WHOLE) /* as 1g.5gb: one slice, and its memory */
        snprintf(name, sizeof name, "%s MIG 1g.%llugb", gpu.name, (gpu.memory_mib / 8 + 512) / 1024);
    return answer(text, length, name);
}

/* nvmlBrandType_t: Tesla, GeForce, NVIDIA. */
nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, unsigned int *brand) {
    DEVICE(device);
    return number(brand, !strncmp(gpu.name, "Tesla", 5) ? 2 : strstr(gpu.name, "GeForce") ? 5 : 14);
}

/* NVML_DEVICE_ARCH_...: Kepler, Volta, Turing, Ampere, Ada, Hopper. */
nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned int *architecture) {
    DEVICE(device);
    switch (gpu.major) {
    case 3: return number(architecture, 2);
    case 7: return number(architecture, gpu.minor ? 6 : 5);
    case 8: return number(architecture, gpu.minor == 9 ? 8 : 7);
    case 9: return number(architecture, 9);
    default: return NVML_ERROR_NOT_SUPPORTED;
    }
}

/* Each card's own; what marks it as simulated is the model's. */
nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *text, unsigned int length) {
    char value[SIMULATED_LINE];
    DEVICE(device);
    if (!supports("serial"))
        return NVML_ERROR_NOT_SUPPORTED;
    if (!simulated_own(device->index, "serial", value)) {
        simulated_line("serial", value);
        snprintf(value + strlen(value), 16, "-%.8s", gpu.uuids[device->index] + 4);
    }
    return answer(text, length, value);
}

nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *text, unsigned int length) {
    char value[SIMULATED_LINE];
    DEVICE(device);
    return answer(text, length, health(device, "vbios", value) ? value : "simulated");
}

struct pci_v3 {
    char legacy[16];
    unsigned int domain, bus, device, id, subsystem;
    char text[32];
};
struct pci_v2 {
    char text[16];
    unsigned int domain, bus, device, id, subsystem, reserved[4];
};

/* What all versions of the struct have; `format` is how they write the address. */
#define FILL_PCI(pci, index, format)                                                             \
    do {                                                                                         \
        (pci)->domain = (pci)->device = 0;                                                       \
        (pci)->bus = simulated_bus(index);                                                       \
        (pci)->id = gpu.pci_device << 16 | 0x10de;                                               \
        (pci)->subsystem = gpu.pci_subsystem << 16 | 0x10de;                                     \
        snprintf((pci)->text, sizeof(pci)->text, format, (pci)->bus);                            \
    } while (0)

static void fill_pci_v3(unsigned int index, struct pci_v3 *pci) {
    memset(pci, 0, sizeof *pci);
    FILL_PCI(pci, index, "00000000:%02X:00.0");
    snprintf(pci->legacy, sizeof pci->legacy, "0000:%02X:00.0", pci->bus);
}

static void fill_pci_v2(unsigned int index, struct pci_v2 *pci) {
    memset(pci, 0, sizeof *pci);
    FILL_PCI(pci, index, "0000:%02X:00.0");
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, struct pci_v3 *pci) {
    DEVICE(device);
    fill_pci_v3(device->index, pci);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, struct pci_v2 *pci) {
    DEVICE(device);
    fill_pci_v2(device->index, pci);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, struct pci_v2 *pci) {
    return nvmlDeviceGetPciInfo_v2(device, pci);
}

struct pci_ext {
    unsigned int version, domain, bus, device, id, subsystem, base_class, sub_class;
    char text[32];
};

/* nvidia-smi 550 asks here for the address. A version is the size, and its number above 24 bits. */
nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, struct pci_ext *pci) {
    DEVICE(device);
    if (!pci)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (pci->version != (sizeof *pci | 1u << 24))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    FILL_PCI(pci, device->index, "00000000:%02X:00.0");
    pci->base_class = gpu.pci_class >> 16; /* as the PCI entries of the host */
    pci->sub_class = gpu.pci_class >> 8 & 0xff;
    return NVML_SUCCESS;
}

#define VALUE(name, value)                                                                       \
    nvmlReturn_t name(nvmlDevice_t device, unsigned int *where) {                                \
        DEVICE(device);                                                                          \
        return number(where, value);                                                             \
    }
VALUE(nvmlDeviceGetBoardId, simulated_bus(device->index) << 8)
VALUE(nvmlDeviceGetMultiGpuBoard, 0)
/* The link of an idle card is slow and as wide as always. */
VALUE(nvmlDeviceGetCurrPcieLinkGeneration,
      unless_busy(device, "pcie_generation", "pcie_max_generation"))
VALUE(nvmlDeviceGetCurrPcieLinkWidth, health_number(device, "pcie_width"))
VALUE(nvmlDeviceGetMaxPcieLinkGeneration, health_number(device, "pcie_max_generation"))
VALUE(nvmlDeviceGetMaxPcieLinkWidth, health_number(device, "pcie_max_width"))
VALUE(nvmlDeviceGetPcieReplayCounter, health_number(device, "replays"))

/* The card's own, whatever slot it is in. */
nvmlReturn_t nvmlDeviceGetGpuMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int *where) {
    return models_number(device, "pcie_max_generation", where);
}
