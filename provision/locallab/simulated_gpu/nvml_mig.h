/* A GPU that is cut into instances, each a device of its own. */

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *now, unsigned int *pending) {
    return mode(device, "mig", 1, now, pending);
}

static int has_mig(nvmlDevice_t device) { return supports("mig") && health_at(device, "mig", 0); }

/* How many there may be: 0 where MIG is not supported, or off (nvml.h). */
VALUE(nvmlDeviceGetMaxMigDeviceCount, has_mig(device) ? MIG_MAXIMUM : 0)

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                 nvmlDevice_t *instance) {
    DEVICE(device);
    if (!instance || device->instance != WHOLE)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!supports("mig"))
        return NVML_ERROR_NOT_SUPPORTED;
    if (index >= MIG_MAXIMUM)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!has_mig(device) || index >= health_number(device, "mig_devices"))
        return NVML_ERROR_NOT_FOUND;
    *instance = &instances[device->index][index];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t instance,
                                                          nvmlDevice_t *device) {
    DEVICE(instance);
    if (!device || instance->instance == WHOLE)
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = &devices[instance->index];
    return NVML_SUCCESS;
}

VALUE(nvmlDeviceIsMigDeviceHandle, device->instance != WHOLE)

/* GPU instances are numbered from 1, as the driver numbers the small ones. */
nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id) {
    DEVICE(device);
    if (device->instance == WHOLE)
        return NVML_ERROR_NOT_SUPPORTED;
    return number(id, (unsigned int)device->instance + 1);
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id) {
    DEVICE(device);
    return device->instance == WHOLE ? NVML_ERROR_NOT_SUPPORTED : number(id, 0);
}

/* MIG-, and the GPU's with the instance's number in its last place. */
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned int length) {
    char uuid[48];
    DEVICE(device);
    memcpy(uuid, gpu.uuids[device->index], sizeof uuid);
    if (device->instance != WHOLE && strlen(uuid) > 4) {
        memcpy(uuid, "MIG", 3);
        uuid[strlen(uuid) - 1] = (char)('0' + device->instance);
    }
    return answer(text, length, uuid);
}

struct attributes {
    unsigned int multiprocessors, copy_engines, decoders, encoders, jpeg, flow;
    unsigned int gpu_slices, compute_slices;
    unsigned long long memory_mib;
};

/* Each instance is the smallest: one of seven slices, and an eighth of the memory. */
nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, struct attributes *attributes) {
    DEVICE(device);
    if (device->instance == WHOLE)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!attributes)
        return NVML_ERROR_INVALID_ARGUMENT;
    memset(attributes, 0, sizeof *attributes);
    attributes->multiprocessors = 14;
    attributes->copy_engines = 1;
    attributes->gpu_slices = attributes->compute_slices = 1;
    attributes->memory_mib = gpu.memory_mib / 8;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, struct attributes *attributes) {
    return nvmlDeviceGetAttributes_v2(device, attributes);
}
