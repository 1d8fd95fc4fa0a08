/* What all parts of the simulated NVML share: its types, its codes, and what a GPU is like now. */
#ifndef NVML_H
#define NVML_H

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
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999
};

#define MIG_MAXIMUM 7 /* instances that an A100 or H100 can be cut into */
#define WHOLE (-1)

struct device {
    unsigned int index;
    int instance; /* of a MIG device; WHOLE for a GPU */
};

static struct simulated gpu;
static struct device devices[SIMULATED_MAXIMUM];
static struct device instances[SIMULATED_MAXIMUM][MIG_MAXIMUM];
static int initialized;

/* Is this one of our handles? Nothing is read through it before. */
static int is_device(const void *handle) {
    const char *place = handle;
    return (place >= (const char *)devices && place < (const char *)(devices + gpu.count)) ||
           (place >= (const char *)instances && place < (const char *)(instances + gpu.count));
}

static nvmlReturn_t usable(nvmlDevice_t device) {
    if (!is_device(device) || simulated_is_missing(device->index))
        return NVML_ERROR_INVALID_ARGUMENT;
    return simulated_is_lost(device->index) ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

#define READY                                                                                    \
    if (!initialized)                                                                            \
    return NVML_ERROR_UNINITIALIZED
#define DEVICE(device)                                                                           \
    READY;                                                                                       \
    do {                                                                                         \
        nvmlReturn_t why_not = usable(device);                                                   \
        if (why_not != NVML_SUCCESS)                                                             \
            return why_not;                                                                      \
    } while (0)

static nvmlReturn_t answer(char *text, unsigned int length, const char *value) {
    if (!text)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(value) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(text, value);
    return NVML_SUCCESS;
}

static nvmlReturn_t number(unsigned int *where, unsigned long long value) {
    if (!where)
        return NVML_ERROR_INVALID_ARGUMENT;
    *where = (unsigned int)value;
    return NVML_SUCCESS;
}

static nvmlReturn_t large_number(unsigned long long *where, unsigned long long value) {
    if (!where)
        return NVML_ERROR_INVALID_ARGUMENT;
    *where = value;
    return NVML_SUCCESS;
}

/* A model that lacks a feature has no healthy value for it. */
static int supports(const char *key) {
    char value[SIMULATED_LINE];
    return simulated_line(key, value);
}

/* What this GPU has for a key: its own value, else what is healthy; 0 where there is neither. */
static int health(nvmlDevice_t device, const char *key, char value[SIMULATED_LINE]) {
    return simulated_own(device->index, key, value) || simulated_line(key, value);
}

/* The number at a place of what this GPU has for a key; 0 where it has none. */
static unsigned long long health_at(nvmlDevice_t device, const char *key, unsigned int place) {
    char value[SIMULATED_LINE];
    return health(device, key, value) ? simulated_nth(value, place, 0) : 0;
}

static unsigned long long health_number(nvmlDevice_t device, const char *key) {
    return health_at(device, key, 0);
}

/* What is healthy for the model, whatever this GPU has. */
static nvmlReturn_t models_number(nvmlDevice_t device, const char *key, unsigned int *where) {
    char value[SIMULATED_LINE];
    DEVICE(device);
    if (!simulated_line(key, value))
        return NVML_ERROR_NOT_SUPPORTED;
    return number(where, simulated_nth(value, 0, 0));
}

/* A mode, and at `place` of its line the one that a reset brings. */
static nvmlReturn_t mode(nvmlDevice_t device, const char *key, unsigned int place,
                         unsigned int *now, unsigned int *pending) {
    DEVICE(device);
    if (!supports(key))
        return NVML_ERROR_NOT_SUPPORTED;
    if (!now || !pending)
        return NVML_ERROR_INVALID_ARGUMENT;
    *now = (unsigned int)health_number(device, key);
    *pending = (unsigned int)health_at(device, key, place);
    return NVML_SUCCESS;
}

static unsigned long long used(nvmlDevice_t device) {
    struct simulated_work work;
    simulated_work(device->index, &work);
    return simulated_used_mib(&work, gpu.memory_mib) << 20;
}

/* A GPU at work leaves its idle state: it has its own value if it has one, else the busy key's. */
static unsigned long long unless_busy(nvmlDevice_t device, const char *key, const char *busy) {
    char value[SIMULATED_LINE];
    if (!simulated_own(device->index, key, value) && used(device))
        return busy ? health_number(device, busy) : 0;
    return health_number(device, key);
}

#endif
