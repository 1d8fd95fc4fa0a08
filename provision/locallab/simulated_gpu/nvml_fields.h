/* The same values by the numbers of nvml.h (NVML_FI_DEV_...): newer nvidia-smi ask here. */

struct field {
    unsigned int id, scope;
    long long timestamp, latency;
    int kind;
    nvmlReturn_t result;
    unsigned long long value;
};

#define KIND_UNSIGNED_INT 1
#define KIND_UNSIGNED_LONG_LONG 3

/* Scope 1 of a power field is the module's, which is not the GPU's. */
static nvmlReturn_t field_of_power(nvmlDevice_t device, struct field *field) {
    char value[SIMULATED_LINE];
    if (field->scope || !simulated_line("power_limit", value))
        return NVML_ERROR_NOT_SUPPORTED;
    switch (field->id) {
    case 186: field->value = health_number(device, "power"); break;
    case 189: field->value = simulated_nth(value, 0, 0); break; /* what it boots with */
    case 190:
    case 192: field->value = health_number(device, "power_limit"); break;
    default: return NVML_ERROR_NOT_SUPPORTED;
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t field_of_memory(nvmlDevice_t device, struct field *field) {
    unsigned int rows[4], count = 0;
    nvmlReturn_t result;
    if (field->id <= 2)
        return nvmlDeviceGetEccMode(device, &rows[0], &rows[1])
                   ? NVML_ERROR_NOT_SUPPORTED
                   : large_number(&field->value, rows[field->id - 1]);
    if (field->id <= 6) {
        field->kind = KIND_UNSIGNED_LONG_LONG;
        return nvmlDeviceGetTotalEccErrors(device, (field->id - 3) % 2, (field->id - 3) / 2,
                                           &field->value);
    }
    if (field->id == 29 || field->id == 30) {
        result = nvmlDeviceGetRetiredPages(device, field->id - 29, &count, NULL);
        field->value = count;
        return result == NVML_ERROR_INSUFFICIENT_SIZE ? NVML_SUCCESS : result;
    }
    if (field->id == 31) {
        result = nvmlDeviceGetRetiredPagesPendingStatus(device, &count);
        field->value = count;
        return result;
    }
    result = nvmlDeviceGetRemappedRows(device, &rows[0], &rows[1], &rows[2], &rows[3]);
    if (result == NVML_SUCCESS)
        field->value = rows[field->id - 142];
    return result;
}

/* MB/s of one link that is up: by the card's generation. */
static unsigned int link_speed(void) {
    if (gpu.major == 8)
        return gpu.minor ? 14062 : 25000;
    return gpu.major > 8 ? 26562 : 25781;
}

/* State, speed and version of a link: 470 and newer ask here, and 470 asks without end. */
static nvmlReturn_t field_of_link(nvmlDevice_t device, struct field *field, unsigned int link,
                                  int what) {
    unsigned int active, version;
    nvmlReturn_t result = nvmlDeviceGetNvLinkState(device, link, &active);
    if (result != NVML_SUCCESS)
        return result;
    if (what == 166) {
        result = nvmlDeviceGetNvLinkVersion(device, link, &version);
        field->value = version;
        return result;
    }
    return large_number(&field->value, what == 165 ? active : active ? link_speed() : 0);
}

static nvmlReturn_t field_of(nvmlDevice_t device, struct field *field) {
    field->kind = KIND_UNSIGNED_INT;
    field->value = 0;
    if ((field->id >= 1 && field->id <= 6) || (field->id >= 29 && field->id <= 31) ||
        (field->id >= 142 && field->id <= 145))
        return field_of_memory(device, field);
    if (field->id >= 186 && field->id <= 192)
        return field_of_power(device, field);
    if (field->id >= 84 && field->id <= 89)
        return field_of_link(device, field, field->id - 84, 164);
    if (field->id >= 132 && field->id <= 137)
        return field_of_link(device, field, field->id - 132 + 6, 164);
    if (field->id >= 148 && field->id <= 163)
        field->kind = KIND_UNSIGNED_LONG_LONG;
    if (field->id >= 148 && field->id <= 159)
        return nvmlDeviceGetNvLinkErrorCounter(device, field->id - 148, 4, &field->value);
    if (field->id >= 161 && field->id <= 163)
        return nvmlDeviceGetNvLinkErrorCounter(device, field->scope, field->id - 161,
                                               &field->value);
    if (field->id >= 164 && field->id <= 166)
        return field_of_link(device, field, field->scope, (int)field->id);
    switch (field->id) {
    case 90: return health_number(device, "nvlinks") ? large_number(&field->value, link_speed())
                                                     : NVML_ERROR_NOT_SUPPORTED;
    case 91: return large_number(&field->value, health_number(device, "nvlinks"));
    case 94: return large_number(&field->value, health_number(device, "replays"));
    case 95: return NVML_SUCCESS; /* how often the counter began anew */
    case 230: return recovery_action(device, &field->value);
    default: return NVML_ERROR_NOT_SUPPORTED;
    }
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, struct field *fields) {
    int index;
    DEVICE(device);
    if (count < 1 || !fields)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (index = 0; index < count; index++) {
        fields[index].timestamp = fields[index].latency = 0;
        fields[index].result = field_of(device, &fields[index]);
    }
    return NVML_SUCCESS;
}
