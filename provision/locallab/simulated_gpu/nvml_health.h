/* How a GPU does: its memory's errors, its temperature, power and clocks, and its modes. */

VALUE(nvmlDeviceGetComputeMode, health_number(device, "compute_mode"))
VALUE(nvmlDeviceGetPersistenceMode, health_number(device, "persistence"))
VALUE(nvmlDeviceGetDisplayMode, health_number(device, "display"))
VALUE(nvmlDeviceGetDisplayActive, health_number(device, "display"))
VALUE(nvmlDeviceGetPerformanceState, unless_busy(device, "performance_state", NULL))
VALUE(nvmlDeviceGetPowerState, unless_busy(device, "performance_state", NULL))
VALUE(nvmlDeviceGetPowerUsage, health_number(device, "power")) /* mW, as the limits */
VALUE(nvmlDeviceGetEnforcedPowerLimit, health_number(device, "power_limit"))
VALUE(nvmlDeviceGetPowerManagementLimit, health_number(device, "power_limit"))
VALUE(nvmlDeviceGetPowerManagementMode, 1)

nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned int *limit) {
    return models_number(device, "power_limit", limit);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned int *celsius) {
    DEVICE(device);
    if (sensor)
        return NVML_ERROR_INVALID_ARGUMENT;
    return number(celsius, health_number(device, "temperature"));
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned int threshold,
                                               unsigned int *celsius) {
    DEVICE(device);
    switch (threshold) {
    case 0: return number(celsius, health_number(device, "shutdown_temperature"));
    case 1: return number(celsius, health_number(device, "slowdown_temperature"));
    default: return threshold < 8 ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
    }
}

nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned int *percent) {
    DEVICE(device);
    if (!supports("fan"))
        return NVML_ERROR_NOT_SUPPORTED;
    return number(percent, health_number(device, "fan"));
}

nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned int fan,
                                      unsigned int *percent) {
    nvmlReturn_t result = nvmlDeviceGetFanSpeed(device, percent);
    return result == NVML_SUCCESS && fan ? NVML_ERROR_INVALID_ARGUMENT : result;
}

/* nvmlClockType_t: graphics, SM, memory, video. */
static nvmlReturn_t clock_kind(unsigned int kind) {
    if (kind > 3)
        return NVML_ERROR_INVALID_ARGUMENT;
    return kind > 1 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned int kind, unsigned int *mhz) {
    nvmlReturn_t result;
    DEVICE(device);
    result = clock_kind(kind);
    return result ? result : number(mhz, unless_busy(device, "clock", "clock_max"));
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned int kind, unsigned int *mhz) {
    nvmlReturn_t result;
    DEVICE(device);
    result = clock_kind(kind);
    return result ? result : number(mhz, health_number(device, "clock_max"));
}

#define THROTTLE_IDLE 0x1
#define THROTTLE_ALL 0x1ff

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                       unsigned long long *reasons) {
    char value[SIMULATED_LINE];
    DEVICE(device);
    if (simulated_own(device->index, "throttle", value))
        return large_number(reasons, strtoull(value, NULL, 16));
    return large_number(reasons, used(device) ? 0 : THROTTLE_IDLE);
}

nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t device,
                                                         unsigned long long *reasons) {
    DEVICE(device);
    return large_number(reasons, THROTTLE_ALL);
}

/* Their names from 535 on. */
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device,
                                                    unsigned long long *reasons) {
    return nvmlDeviceGetCurrentClocksThrottleReasons(device, reasons);
}

nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t device,
                                                      unsigned long long *reasons) {
    return nvmlDeviceGetSupportedClocksThrottleReasons(device, reasons);
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *now, unsigned int *pending) {
    return mode(device, "ecc_mode", 0, now, pending);
}

/* `kind`: corrected, uncorrected; `counter`: volatile, aggregate. */
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned int kind,
                                         unsigned int counter, unsigned long long *errors) {
    static const char *const keys[2][2] = {{"ecc_corrected", "ecc_corrected_aggregate"},
                                           {"ecc_uncorrected", "ecc_uncorrected_aggregate"}};
    DEVICE(device);
    if (!supports("ecc_mode"))
        return NVML_ERROR_NOT_SUPPORTED;
    if (kind > 1 || counter > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!health_number(device, "ecc_mode"))
        return NVML_ERROR_NOT_SUPPORTED;
    return large_number(errors, health_number(device, keys[kind][counter]));
}

/* All errors are the device memory's. */
nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, unsigned int kind,
                                             unsigned int counter, unsigned int location,
                                             unsigned long long *errors) {
    nvmlReturn_t result = nvmlDeviceGetTotalEccErrors(device, kind, counter, errors);
    if (result != NVML_SUCCESS)
        return result;
    if (location > 7)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (location != 2)
        *errors = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected,
                                       unsigned int *uncorrected, unsigned int *pending,
                                       unsigned int *failure) {
    DEVICE(device);
    if (!corrected || !uncorrected || !pending || !failure)
        return NVML_ERROR_INVALID_ARGUMENT;
    /* Not of a GPU that is cut into instances: nvml.h. */
    if (!supports("remapped_rows") ||
        (health_at(device, "mig", 0) && health_number(device, "mig_devices")))
        return NVML_ERROR_NOT_SUPPORTED;
    *corrected = (unsigned int)health_at(device, "remapped_rows", 0);
    *uncorrected = (unsigned int)health_at(device, "remapped_rows", 1);
    *pending = (unsigned int)health_at(device, "remapped_rows", 2);
    *failure = (unsigned int)health_at(device, "remapped_rows", 3);
    return NVML_SUCCESS;
}

/* `cause`: several single bit errors, or one double bit error. */
nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, unsigned int cause,
                                          unsigned int *count, unsigned long long *addresses,
                                          unsigned long long *timestamps) {
    unsigned int room, index;
    DEVICE(device);
    if (!supports("retired_pages"))
        return NVML_ERROR_NOT_SUPPORTED;
    if (!count || cause > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    room = *count;
    *count = (unsigned int)health_at(device, "retired_pages", cause);
    if (*count > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (index = 0; index < *count; index++) {
        if (!addresses)
            return NVML_ERROR_INVALID_ARGUMENT;
        addresses[index] = 0x1000ULL * (2 * index + cause + 1);
        if (timestamps)
            timestamps[index] = 1600000000000000ULL; /* microseconds: some day in 2020 */
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, unsigned int cause,
                                       unsigned int *count, unsigned long long *addresses) {
    return nvmlDeviceGetRetiredPages_v2(device, cause, count, addresses, NULL);
}

nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, unsigned int *pending) {
    DEVICE(device);
    if (!supports("retired_pages"))
        return NVML_ERROR_NOT_SUPPORTED;
    return number(pending, health_at(device, "retired_pages", 2));
}
