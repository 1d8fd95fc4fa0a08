/* A simulated NVML: the real nvidia-smi runs on it and shows what /etc/gpu-simulated says.
 *
 * nvidia-smi looks functions up by name; those that only a real GPU can answer are in
 * nvml_unsupported.h and say NVML_ERROR_NOT_SUPPORTED, which nvidia-smi shows as N/A. */
#include "nvml.h"

#include <unistd.h>

/* NVML numbers what it knows: a GPU that is missing leaves no gap. */
static unsigned int place_of(unsigned int index) {
    unsigned int before, place = 0;
    for (before = 0; before < index; before++)
        place += !simulated_is_missing(before);
    return place;
}

/* A driver that hangs keeps nvmlInit waiting; whoever cures it meanwhile frees the program. */
static void hang(void) {
    char value[SIMULATED_LINE];
    unsigned long long waited;
    for (waited = 0; simulated_line("hang", value) && waited < simulated_nth(value, 0, 0); waited++)
        sleep(1);
}

nvmlReturn_t nvmlInit_v2(void) {
    unsigned int index;
    int instance;
    hang();
    simulated_read(&gpu);
    if (!gpu.present)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    for (index = 0; index < SIMULATED_MAXIMUM; index++) {
        devices[index].index = index;
        devices[index].instance = WHOLE;
        for (instance = 0; instance < MIG_MAXIMUM; instance++) {
            instances[index][instance].index = index;
            instances[index][instance].instance = instance;
        }
    }
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
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument Version Mismatch";
    default: return "Unknown Error (simulated GPU)";
    }
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

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    READY;
    return number(count, place_of(gpu.count));
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count) { return nvmlDeviceGetCount_v2(count); }

static nvmlReturn_t handle(unsigned int index, nvmlDevice_t *device) {
    if (simulated_is_missing(index))
        return NVML_ERROR_NOT_FOUND;
    if (simulated_is_lost(index))
        return NVML_ERROR_GPU_IS_LOST;
    *device = &devices[index];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    unsigned int here;
    READY;
    for (here = 0; device && here < gpu.count; here++)
        if (!simulated_is_missing(here) && place_of(here) == index)
            return handle(here, device);
    return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device) {
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    unsigned int index;
    READY;
    for (index = 0; index < gpu.count; index++)
        if (!strcmp(uuid, gpu.uuids[index]))
            return handle(index, device);
    return NVML_ERROR_NOT_FOUND;
}

/* "00000000:3B:00.0", "0000:3b:00.0" or "3b:00.0" */
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *text, nvmlDevice_t *device) {
    const char *bus = strchr(text, ':');
    unsigned int index;
    READY;
    bus = bus && strchr(bus + 1, ':') ? bus + 1 : text;
    for (index = 0; index < gpu.count; index++)
        if (strtoul(bus, NULL, 16) == simulated_bus(index))
            return handle(index, device);
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *text, nvmlDevice_t *device) {
    return nvmlDeviceGetHandleByPciBusId_v2(text, device);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index) {
    DEVICE(device);
    return number(index, device->instance == WHOLE ? place_of(device->index)
                                                   : (unsigned int)device->instance);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor) {
    DEVICE(device);
    return number(minor, device->index);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    DEVICE(device);
    *major = gpu.major;
    *minor = gpu.minor;
    return NVML_SUCCESS;
}

#include "nvml_pci.h"
#include "nvml_work.h"
#include "nvml_health.h"
#include "nvml_own_word.h"
#include "nvml_mig.h"
#include "nvml_links.h"
#include "nvml_fields.h"

nvmlReturn_t nvmlUnitGetCount(unsigned int *count) { return number(count, 0); }

nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned int *count) { return number(count, 0); }

nvmlReturn_t nvmlGetBlacklistDeviceCount(unsigned int *count) { return number(count, 0); }

/* nvidia-smi's table registers for events before it draws; nothing ever happens here. */
nvmlReturn_t nvmlEventSetCreate(void **set) {
    *set = malloc(1);
    return *set ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t nvmlEventSetFree(void *set) {
    free(set);
    return NVML_SUCCESS;
}

/* Of a lost GPU even these say so. */
static nvmlReturn_t unsupported(const void *first) {
    if (initialized && is_device(first) &&
        simulated_is_lost(((const struct device *)first)->index))
        return NVML_ERROR_GPU_IS_LOST;
    return NVML_ERROR_NOT_SUPPORTED;
}

#define UNSUPPORTED(name)                                                                        \
    nvmlReturn_t name(const void *first);                                                        \
    nvmlReturn_t name(const void *first) { return unsupported(first); }
#include "nvml_unsupported.h"
