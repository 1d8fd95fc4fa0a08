/* A simulated NVML: the real nvidia-smi runs on it and shows what /etc/gpu-simulated says.
 *
 * nvidia-smi looks functions up by name; those that only a real GPU can answer are in
 * nvml_unsupported.h and say NVML_ERROR_NOT_SUPPORTED, which nvidia-smi shows as N/A. */
#include "simulated.h"

typedef int nvmlReturn_t;
typedef struct device *nvmlDevice_t;

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25
};

struct device {
    unsigned int index;
};

static struct simulated gpu;
static struct device devices[SIMULATED_MAXIMUM];
static int initialized;

#define READY                                                                                    \
    if (!initialized)                                                                            \
    return NVML_ERROR_UNINITIALIZED
#define DEVICE(device)                                                                           \
    READY;                                                                                       \
    if ((device) < devices || (device) >= devices + gpu.count)                                   \
    return NVML_ERROR_INVALID_ARGUMENT

static nvmlReturn_t answer(char *text, unsigned int length, const char *value) {
    if (!text)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(value) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(text, value);
    return NVML_SUCCESS;
}

static nvmlReturn_t number(unsigned int *where, unsigned int value) {
    if (!where)
        return NVML_ERROR_INVALID_ARGUMENT;
    *where = value;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void) {
    unsigned int index;
    simulated_read(&gpu);
    if (!gpu.present)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    for (index = 0; index < SIMULATED_MAXIMUM; index++)
        devices[index].index = index;
    initialized = 1;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit(void) { return nvmlInit_v2(); }

nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    return nvmlInit_v2();
}

nvmlReturn_t nvmlShutdown(void) {
    READY;
    initialized = 0;
    return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t result) {
    switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument Version Mismatch";
    default: return "Unknown Error (simulated GPU)";
    }
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length);

/* An entry of nvidia-smi's own list of processes, 4128 bytes: seen with 580 in
 * https://github.com/NVIDIA/k8s-test-infra/pull/630, and the same with 535 and 550. */
struct process_named {
    unsigned int pid, unused;
    unsigned long long used;
    unsigned int gpu_instance, compute_instance;
    unsigned long long protected_used;
    char name[4096];
};

/* Sets how many processes the device has; fails where the caller has no room for them. */
static nvmlReturn_t processes(nvmlDevice_t device, unsigned int *count, const void *infos,
                              struct simulated *now) {
    unsigned int room;
    DEVICE(device);
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    simulated_read(now);
    room = *count;
    *count = device->index ? 0 : now->process_count;
    return *count && (room < *count || !infos) ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

/* From 535 on nvidia-smi takes processes from here, not from the public functions. */
static nvmlReturn_t internal_processes(nvmlDevice_t device, unsigned int *count,
                                       struct process_named *infos) {
    struct simulated now;
    unsigned int index;
    nvmlReturn_t result = processes(device, count, infos, &now);
    if (result != NVML_SUCCESS)
        return result;
    for (index = 0; index < *count; index++) {
        memset(&infos[index], 0, sizeof infos[index]);
        infos[index].pid = now.processes[index].pid;
        infos[index].used = now.processes[index].mib << 20;
        infos[index].gpu_instance = infos[index].compute_instance = 0xffffffffu;
        nvmlSystemGetProcessName(infos[index].pid, infos[index].name, sizeof infos[index].name);
    }
    return NVML_SUCCESS;
}

/* nvidia-smi asks for tables of internal functions and takes their absence for another
 * driver's library ("Mismatch in versions between nvidia-smi and NVML"). A table begins with
 * its size in bytes; a newer nvidia-smi calls entries further down. */
static nvmlReturn_t internal(void) { return NVML_ERROR_NOT_SUPPORTED; }

#define PROCESSES_ENTRY 213

static const void *table[1024];

nvmlReturn_t nvmlInternalGetExportTable(const void **where, const void *id) {
    nvmlReturn_t (*processes)(nvmlDevice_t, unsigned int *, struct process_named *) =
        internal_processes;
    size_t index;
    (void)id;
    if (!where)
        return NVML_ERROR_INVALID_ARGUMENT;
    table[0] = (const void *)sizeof table;
    for (index = 1; index < sizeof table / sizeof *table; index++) {
        nvmlReturn_t (*function)(void) = internal;
        memcpy(&table[index], &function, sizeof function);
    }
    memcpy(&table[PROCESSES_ENTRY], &processes, sizeof processes);
    *where = table;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *text, unsigned int length) {
    READY;
    return answer(text, length, gpu.driver_version);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *text, unsigned int length) {
    char version[80];
    struct simulated now;
    simulated_read(&now); /* may be asked before nvmlInit */
    snprintf(version, sizeof version, "%d.%s", now.cuda_version / 1000, now.driver_version);
    return answer(text, length, version);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
    struct simulated now;
    simulated_read(&now); /* may be asked before nvmlInit */
    if (!version)
        return NVML_ERROR_INVALID_ARGUMENT;
    *version = now.cuda_version;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    return nvmlSystemGetCudaDriverVersion(version);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length) {
    char path[64], line[256];
    FILE *file;
    READY;
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    file = fopen(path, "r");
    if (!file)
        return NVML_ERROR_NOT_FOUND;
    memset(line, 0, sizeof line);
    if (!fread(line, 1, sizeof line - 1, file))
        line[0] = '\0';
    fclose(file);
    snprintf(name, length, "%s", line);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    READY;
    return number(count, gpu.count);
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count) { return nvmlDeviceGetCount_v2(count); }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    READY;
    if (index >= gpu.count || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = &devices[index];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device) {
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    unsigned int index;
    READY;
    for (index = 0; index < gpu.count; index++)
        if (!strcmp(uuid, gpu.uuids[index])) {
            *device = &devices[index];
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

/* "00000000:3B:00.0", "0000:3b:00.0" or "3b:00.0" */
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *text, nvmlDevice_t *device) {
    const char *bus = strchr(text, ':');
    unsigned int index;
    READY;
    bus = bus && strchr(bus + 1, ':') ? bus + 1 : text;
    for (index = 0; index < gpu.count; index++)
        if (strtoul(bus, NULL, 16) == simulated_bus(index)) {
            *device = &devices[index];
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *text, nvmlDevice_t *device) {
    return nvmlDeviceGetHandleByPciBusId_v2(text, device);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index) {
    DEVICE(device);
    return number(index, device->index);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor) {
    DEVICE(device);
    return number(minor, device->index);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *text, unsigned int length) {
    DEVICE(device);
    return answer(text, length, gpu.name);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned int length) {
    DEVICE(device);
    return answer(text, length, gpu.uuids[device->index]);
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *text, unsigned int length) {
    DEVICE(device);
    return answer(text, length, "simulated");
}

nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *text, unsigned int length) {
    DEVICE(device);
    return answer(text, length, "simulated");
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

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, struct pci_v3 *pci) {
    DEVICE(device);
    memset(pci, 0, sizeof *pci);
    pci->bus = simulated_bus(device->index);
    pci->id = gpu.pci_device << 16 | 0x10de;
    pci->subsystem = gpu.pci_subsystem << 16 | 0x10de;
    snprintf(pci->legacy, sizeof pci->legacy, "0000:%02X:00.0", pci->bus);
    snprintf(pci->text, sizeof pci->text, "00000000:%02X:00.0", pci->bus);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, struct pci_v2 *pci) {
    DEVICE(device);
    memset(pci, 0, sizeof *pci);
    pci->bus = simulated_bus(device->index);
    pci->id = gpu.pci_device << 16 | 0x10de;
    pci->subsystem = gpu.pci_subsystem << 16 | 0x10de;
    snprintf(pci->text, sizeof pci->text, "0000:%02X:00.0", pci->bus);
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
    pci->domain = pci->device = 0;
    pci->bus = simulated_bus(device->index);
    pci->id = gpu.pci_device << 16 | 0x10de;
    pci->subsystem = gpu.pci_subsystem << 16 | 0x10de;
    pci->base_class = 3; /* as the PCI entries of the host: a 3D controller */
    pci->sub_class = 2;
    snprintf(pci->text, sizeof pci->text, "00000000:%02X:00.0", pci->bus);
    return NVML_SUCCESS;
}

struct memory {
    unsigned long long total, unused, used;
};
struct memory_v2 {
    unsigned int version;
    unsigned long long total, reserved, unused, used;
};

/* Work is on GPU 0 only, and is read anew: a test edits the file while a program watches. */
static unsigned long long used(nvmlDevice_t device) {
    struct simulated now;
    if (device->index)
        return 0;
    simulated_read(&now);
    return simulated_used_mib(&now) << 20;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct memory *memory) {
    DEVICE(device);
    memory->total = gpu.memory_mib << 20;
    memory->used = used(device);
    memory->unused = memory->total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, struct memory_v2 *memory) {
    DEVICE(device);
    memory->total = gpu.memory_mib << 20;
    memory->reserved = 0;
    memory->used = used(device);
    memory->unused = memory->total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, struct memory *memory) {
    DEVICE(device);
    memory->total = 256ULL << 20;
    memory->used = 0;
    memory->unused = memory->total;
    return NVML_SUCCESS;
}

struct process_v1 {
    unsigned int pid;
    unsigned long long used;
};
struct process_v2 {
    unsigned int pid;
    unsigned long long used;
    unsigned int gpu_instance, compute_instance;
};

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
                                                     struct process_v2 *infos) {
    struct simulated now;
    unsigned int index;
    nvmlReturn_t result = processes(device, count, infos, &now);
    if (result != NVML_SUCCESS)
        return result;
    for (index = 0; index < *count; index++) {
        infos[index].pid = now.processes[index].pid;
        infos[index].used = now.processes[index].mib << 20;
        infos[index].gpu_instance = infos[index].compute_instance = 0xffffffffu;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                     struct process_v2 *infos) {
    return nvmlDeviceGetComputeRunningProcesses_v2(device, count, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *count,
                                                  struct process_v1 *infos) {
    struct process_v2 found[64];
    unsigned int index, room, have = 64;
    nvmlReturn_t result;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    room = *count;
    result = nvmlDeviceGetComputeRunningProcesses_v2(device, &have, found);
    if (result != NVML_SUCCESS)
        return result;
    *count = have;
    if (have && (room < have || !infos))
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (index = 0; index < have; index++) {
        infos[index].pid = found[index].pid;
        infos[index].used = found[index].used;
    }
    return NVML_SUCCESS;
}

#define NO_PROCESSES(name)                                                                       \
    nvmlReturn_t name(nvmlDevice_t device, unsigned int *count, void *infos) {                   \
        DEVICE(device);                                                                          \
        (void)infos;                                                                             \
        return number(count, 0);                                                                 \
    }
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3)

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, unsigned int *rates) {
    DEVICE(device);
    rates[0] = rates[1] = used(device) ? 50 : 0; /* GPU, memory */
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    DEVICE(device);
    *major = gpu.major;
    *minor = gpu.minor;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned int *celsius) {
    DEVICE(device);
    (void)sensor;
    return number(celsius, 30);
}

#define VALUE(name, value)                                                                       \
    nvmlReturn_t name(nvmlDevice_t device, unsigned int *where) {                                \
        DEVICE(device);                                                                          \
        return number(where, value);                                                             \
    }
VALUE(nvmlDeviceGetComputeMode, 0)           /* Default */
VALUE(nvmlDeviceGetPersistenceMode, 0)       /* Disabled */
VALUE(nvmlDeviceGetDisplayMode, 0)           /* Disabled */
VALUE(nvmlDeviceGetDisplayActive, 0)         /* Disabled */
VALUE(nvmlDeviceGetPerformanceState, 8)      /* P8, idle */
VALUE(nvmlDeviceGetPowerState, 8)
VALUE(nvmlDeviceGetPowerUsage, 10000)        /* mW */
VALUE(nvmlDeviceGetEnforcedPowerLimit, 70000)
VALUE(nvmlDeviceGetPowerManagementLimit, 70000)
VALUE(nvmlDeviceGetPowerManagementDefaultLimit, 70000)
VALUE(nvmlDeviceGetPowerManagementMode, 1)
VALUE(nvmlDeviceGetBoardId, simulated_bus(device->index) << 8)
VALUE(nvmlDeviceGetMultiGpuBoard, 0)
VALUE(nvmlDeviceGetMaxPcieLinkGeneration, 3)
VALUE(nvmlDeviceGetMaxPcieLinkWidth, 16)
VALUE(nvmlDeviceGetCurrPcieLinkGeneration, 1)
VALUE(nvmlDeviceGetCurrPcieLinkWidth, 16)

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *now, unsigned int *pending) {
    DEVICE(device);
    *now = *pending = 1;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int kind, int counter,
                                         unsigned long long *errors) {
    DEVICE(device);
    (void)kind;
    (void)counter;
    *errors = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *answer_) {
    DEVICE(device);
    return number(answer_, 0);
}

nvmlReturn_t nvmlUnitGetCount(unsigned int *count) { return number(count, 0); }

nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned int *count) { return number(count, 0); }

nvmlReturn_t nvmlGetBlacklistDeviceCount(unsigned int *count) { return number(count, 0); }

/* nvidia-smi's table registers for events before it draws; nothing ever happens here. */
nvmlReturn_t nvmlEventSetCreate(void **set) {
    *set = malloc(1);
    return *set ? NVML_SUCCESS : 999;
}

nvmlReturn_t nvmlEventSetFree(void *set) {
    free(set);
    return NVML_SUCCESS;
}

#define UNSUPPORTED(name)                                                                        \
    nvmlReturn_t name(void);                                                                     \
    nvmlReturn_t name(void) { return NVML_ERROR_NOT_SUPPORTED; }
#include "nvml_unsupported.h"
