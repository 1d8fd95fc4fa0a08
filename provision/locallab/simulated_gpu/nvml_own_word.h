/* What newer drivers say of a card's health themselves: nothing without a line of its own, or one of
 * all GPUs that this driver is as new as the question (health.py: NEWER). */

#define STRUCTURE(type, version) ((unsigned int)(sizeof(type) | (version) << 24))

/* Is there anything to say? `value` is the line that says it. */
static nvmlReturn_t own_word(nvmlDevice_t device, const char *key, char value[SIMULATED_LINE]) {
    DEVICE(device);
    return health(device, key, value) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

/* NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, 565 */
static nvmlReturn_t recovery_action(nvmlDevice_t device, unsigned long long *action) {
    char value[SIMULATED_LINE];
    nvmlReturn_t result = own_word(device, "recovery_action", value);
    return result == NVML_SUCCESS ? large_number(action, simulated_nth(value, 0, 0)) : result;
}

struct repairs {
    unsigned int version, channel, tpc;
};

/* 580 */
nvmlReturn_t nvmlDeviceGetRepairStatus(nvmlDevice_t device, struct repairs *status) {
    char value[SIMULATED_LINE];
    nvmlReturn_t result = own_word(device, "repairs_pending", value);
    if (result != NVML_SUCCESS)
        return result;
    if (!status)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (status->version != STRUCTURE(struct repairs, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    status->channel = (unsigned int)simulated_nth(value, 0, 0);
    status->tpc = (unsigned int)simulated_nth(value, 1, 0);
    return NVML_SUCCESS;
}

/* 590 */
nvmlReturn_t nvmlDeviceGetUnrepairableMemoryFlag_v1(nvmlDevice_t device, unsigned int *flag) {
    char value[SIMULATED_LINE];
    nvmlReturn_t result = own_word(device, "unrepairable_memory", value);
    return result == NVML_SUCCESS ? number(flag, simulated_nth(value, 0, 0)) : result;
}

struct sram {
    unsigned int version;
    /* aggregate, then volatile ones */
    unsigned long long parity, secded, corrected, now[3];
    unsigned long long l2, sm, pcie, microcontroller, other;
    unsigned int exceeded;
};

/* 535; all errors are the L2 cache's. */
nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, struct sram *status) {
    char value[SIMULATED_LINE];
    unsigned int version;
    nvmlReturn_t result = own_word(device, "sram_errors", value);
    if (result == NVML_SUCCESS && !health_number(device, "ecc_mode"))
        result = NVML_ERROR_NOT_SUPPORTED;
    if (result != NVML_SUCCESS)
        return result;
    if (!status)
        return NVML_ERROR_INVALID_ARGUMENT;
    version = status->version;
    if (version != STRUCTURE(struct sram, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memset(status, 0, sizeof *status);
    status->version = version;
    status->parity = simulated_nth(value, 0, 0);
    status->secded = simulated_nth(value, 1, 0);
    status->l2 = status->parity + status->secded;
    status->exceeded = (unsigned int)simulated_nth(value, 2, 0);
    return NVML_SUCCESS;
}

/* 455, in whose nvml.h it is for the first time */
nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, unsigned int banks[5]) {
    char value[SIMULATED_LINE];
    unsigned int place;
    nvmlReturn_t result = own_word(device, "remap_banks", value);
    if (result != NVML_SUCCESS)
        return result;
    if (!banks)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (place = 0; place < 5; place++)
        banks[place] = (unsigned int)simulated_nth(value, place, 0);
    return NVML_SUCCESS;
}
