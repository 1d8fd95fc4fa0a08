/* Memory, and the processes at work on a GPU. */

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
                              struct simulated_work *work) {
    unsigned int room;
    DEVICE(device);
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    simulated_work(device->index, work);
    room = *count;
    *count = work->count;
    return *count && (room < *count || !infos) ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

/* From 535 on nvidia-smi takes processes from here, not from the public functions. */
static nvmlReturn_t internal_processes(nvmlDevice_t device, unsigned int *count,
                                       struct process_named *infos) {
    struct simulated_work work;
    unsigned int index;
    nvmlReturn_t result = processes(device, count, infos, &work);
    for (index = 0; result == NVML_SUCCESS && index < *count; index++) {
        memset(&infos[index], 0, sizeof infos[index]);
        infos[index].pid = work.processes[index].pid;
        infos[index].used = work.processes[index].mib << 20;
        infos[index].gpu_instance = infos[index].compute_instance = 0xffffffffu;
        nvmlSystemGetProcessName(infos[index].pid, infos[index].name, sizeof infos[index].name);
    }
    return result;
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

struct memory {
    unsigned long long total, unused, used;
};
struct memory_v2 {
    unsigned int version;
    unsigned long long total, reserved, unused, used;
};

/* An instance has an eighth of its GPU's, as the smallest has; what runs, runs on the whole. */
static unsigned long long memory_mib(nvmlDevice_t device) {
    return device->instance == WHOLE ? gpu.memory_mib : gpu.memory_mib / 8;
}

static unsigned long long memory_used(nvmlDevice_t device) {
    return device->instance == WHOLE ? used(device) : 0;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct memory *memory) {
    DEVICE(device);
    memory->total = memory_mib(device) << 20;
    memory->used = memory_used(device);
    memory->unused = memory->total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, struct memory_v2 *memory) {
    DEVICE(device);
    memory->total = memory_mib(device) << 20;
    memory->reserved = 0;
    memory->used = memory_used(device);
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
    struct simulated_work work;
    unsigned int index;
    nvmlReturn_t result = processes(device, count, infos, &work);
    for (index = 0; result == NVML_SUCCESS && index < *count; index++) {
        infos[index].pid = work.processes[index].pid;
        infos[index].used = work.processes[index].mib << 20;
        infos[index].gpu_instance = infos[index].compute_instance = 0xffffffffu;
    }
    return result;
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
