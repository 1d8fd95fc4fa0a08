/* A simulated CUDA driver API: answers questions about devices, can run no work.
 *
 * Enough for the real TensorFlow, with the real CUDA and cuDNN libraries, to list its devices.
 * Whatever would compute or allocate answers CUDA_ERROR_NOT_SUPPORTED, so that nothing here
 * can be taken for a GPU. */
#include "simulated.h"

typedef int CUresult;
typedef int CUdevice;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_NOT_SUPPORTED = 801
};

static struct simulated gpu;
static unsigned int buses[SIMULATED_MAXIMUM]; /* of the visible devices, by ordinal */
static int initialized;
static char contexts[SIMULATED_MAXIMUM]; /* their addresses are the context handles */
static __thread void *current;

#define READY                                                                                    \
    if (!initialized)                                                                            \
    return CUDA_ERROR_NOT_INITIALIZED
#define DEVICE(number)                                                                           \
    READY;                                                                                       \
    if ((number) < 0 || (unsigned int)(number) >= gpu.count)                                     \
    return CUDA_ERROR_INVALID_DEVICE

static void keep(unsigned int *kept, unsigned int index, const struct simulated *all) {
    buses[*kept] = simulated_bus(index);
    memcpy(gpu.uuids[*kept], all->uuids[index], sizeof all->uuids[index]);
    (*kept)++;
}

/* Keep the devices that CUDA_VISIBLE_DEVICES names, in its order: indices, or beginnings of
 * UUIDs; the first that is invalid hides itself and all after it (CUDA C++ Programming Guide,
 * "CUDA Environment Variables"). Without it `CUDA_VISIBLE_DEVICES=-1` would not mean "no GPU". */
static void select_visible(void) {
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    struct simulated all = gpu;
    unsigned int index, kept = 0;

    if (!list) {
        for (index = 0; index < all.count; index++)
            if (!simulated_is_gone(index))
                keep(&kept, index, &all);
        gpu.count = kept;
        return;
    }
    while (kept < all.count) {
        size_t length;
        list += strspn(list, " ");
        length = strcspn(list, ", ");
        for (index = 0; index < all.count; index++) {
            char number[12];
            snprintf(number, sizeof number, "%u", index);
            if ((strlen(number) == length && !strncmp(list, number, length)) ||
                (length > 4 && !strncmp(list, all.uuids[index], length)))
                break;
        }
        if (index == all.count || simulated_is_gone(index))
            break;
        keep(&kept, index, &all);
        list += length + strspn(list + length, " ");
        if (*list++ != ',')
            break;
    }
    gpu.count = kept;
}

CUresult cuInit(unsigned int flags) {
    (void)flags;
    if (!initialized) {
        simulated_read(&gpu);
        select_visible();
    }
    if (!gpu.present || !gpu.count)
        return CUDA_ERROR_NO_DEVICE;
    initialized = 1;
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
    struct simulated now;
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    simulated_read(&now);
    *version = now.cuda_version;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
    READY;
    *count = (int)gpu.count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    DEVICE(ordinal);
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
    DEVICE(device);
    snprintf(name, (size_t)length, "%s", gpu.name);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    DEVICE(device);
    *bytes = (size_t)gpu.memory_mib << 20;
    return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
    DEVICE(device);
    *major = gpu.major;
    *minor = gpu.minor;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device) {
    DEVICE(device);
    snprintf(text, (size_t)length, "0000:%02X:00.0", buses[device]);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text) {
    unsigned int index;
    const char *bus = strchr(text, ':');
    READY;
    for (index = 0; bus && index < gpu.count; index++)
        if (strtoul(bus + 1, NULL, 16) == buses[index]) {
            *device = (CUdevice)index;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetUuid(unsigned char *uuid, CUdevice device) {
    const char *text;
    int index = 0;
    DEVICE(device);
    memset(uuid, 0, 16);
    text = gpu.uuids[device];
    if (!strncmp(text, "GPU-", 4))
        text += 4;
    while (index < 16 && *text) {
        char pair[3];
        if (*text == '-') {
            text++;
            continue;
        }
        if (!text[1])
            break;
        pair[0] = text[0];
        pair[1] = text[1];
        pair[2] = '\0';
        uuid[index++] = (unsigned char)strtoul(pair, NULL, 16);
        text += 2;
    }
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(unsigned char *uuid, CUdevice device) {
    return cuDeviceGetUuid(uuid, device);
}

/* Numbers are CUdevice_attribute of cuda.h; those of a Tesla T4 where the product decides. */
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    DEVICE(device);
    switch (attribute) {
    case 1: *value = 1024; break;    /* threads per block */
    case 2: *value = 1024; break;    /* block x */
    case 3: *value = 1024; break;    /* block y */
    case 4: *value = 64; break;      /* block z */
    case 5: *value = 2147483647; break; /* grid x */
    case 6: *value = 65535; break;   /* grid y */
    case 7: *value = 65535; break;   /* grid z */
    case 8: *value = 49152; break;   /* shared memory per block */
    case 9: *value = 65536; break;   /* constant memory */
    case 10: *value = 32; break;     /* warp size */
    case 11: *value = 2147483647; break; /* pitch */
    case 12: *value = 65536; break;  /* registers per block */
    case 13: *value = 1590000; break; /* clock, kHz */
    case 14: *value = 512; break;    /* texture alignment */
    case 16: *value = 40; break;     /* multiprocessors */
    case 19: *value = 1; break;      /* can map host memory */
    case 31: *value = 1; break;      /* concurrent kernels */
    case 32: *value = 1; break;      /* ECC */
    case 33: *value = (int)buses[device]; break;
    case 36: *value = 5001000; break; /* memory clock, kHz */
    case 37: *value = 256; break;    /* bus width */
    case 38: *value = 4194304; break; /* L2 */
    case 39: *value = 1024; break;   /* threads per multiprocessor */
    case 40: *value = 3; break;      /* copy engines */
    case 41: *value = 1; break;      /* unified addressing */
    case 75: *value = gpu.major; break;
    case 76: *value = gpu.minor; break;
    case 81: *value = 65536; break;  /* shared memory per multiprocessor */
    case 82: *value = 65536; break;  /* registers per multiprocessor */
    case 97: *value = 65536; break;  /* shared memory per block, opt in */
    default: *value = 0; break;
    }
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    DEVICE(device);
    DEVICE(peer);
    *can = 0;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active) {
    DEVICE(device);
    *flags = 0;
    *active = 0;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
    DEVICE(device);
    (void)flags;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
    return cuDevicePrimaryCtxSetFlags(device, flags);
}

CUresult cuDevicePrimaryCtxRetain(void **context, CUdevice device) {
    DEVICE(device);
    *context = &contexts[device];
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    DEVICE(device);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { return cuDevicePrimaryCtxRelease(device); }

CUresult cuCtxGetCurrent(void **context) {
    READY;
    *context = current;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(void *context) {
    READY;
    current = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(void *context) { return cuCtxSetCurrent(context); }

CUresult cuCtxPopCurrent_v2(void **context) {
    READY;
    if (context)
        *context = current;
    current = NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
    READY;
    if (!current)
        return 201; /* CUDA_ERROR_INVALID_CONTEXT */
    *device = (CUdevice)((char *)current - contexts);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(int *config) {
    READY;
    *config = 0;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(int config) {
    READY;
    (void)config;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
    READY;
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *unused, size_t *total) {
    struct simulated_work work;
    unsigned int ordinal = current ? (unsigned int)((char *)current - contexts) : 0;
    READY;
    simulated_work(buses[ordinal] - simulated_bus(0), &work);
    *total = (size_t)gpu.memory_mib << 20;
    *unused = (size_t)(gpu.memory_mib - simulated_used_mib(&work, gpu.memory_mib)) << 20;
    return CUDA_SUCCESS;
}

/* Streams and events exist, so that a program can be set up; nothing can be put on them. */
CUresult cuStreamCreate(void **stream, unsigned int flags) {
    READY;
    (void)flags;
    *stream = malloc(1);
    return *stream ? CUDA_SUCCESS : 2; /* CUDA_ERROR_OUT_OF_MEMORY */
}

CUresult cuStreamCreateWithPriority(void **stream, unsigned int flags, int priority) {
    (void)priority;
    return cuStreamCreate(stream, flags);
}

CUresult cuStreamDestroy_v2(void *stream) {
    free(stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(void *stream) {
    (void)stream;
    return CUDA_SUCCESS;
}

CUresult cuStreamQuery(void *stream) {
    (void)stream;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    READY;
    if (least)
        *least = 0;
    if (greatest)
        *greatest = 0;
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(void **event, unsigned int flags) { return cuStreamCreate(event, flags); }

CUresult cuEventDestroy_v2(void *event) { return cuStreamDestroy_v2(event); }

CUresult cuGetErrorName(CUresult error, const char **text) {
    switch (error) {
    case CUDA_SUCCESS: *text = "CUDA_SUCCESS"; break;
    case CUDA_ERROR_NO_DEVICE: *text = "CUDA_ERROR_NO_DEVICE"; break;
    case CUDA_ERROR_NOT_SUPPORTED: *text = "CUDA_ERROR_NOT_SUPPORTED"; break;
    default: *text = "CUDA_ERROR_UNKNOWN"; break;
    }
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
    switch (error) {
    case CUDA_SUCCESS: *text = "no error"; break;
    case CUDA_ERROR_NO_DEVICE: *text = "no CUDA-capable device is detected"; break;
    case CUDA_ERROR_NOT_SUPPORTED: *text = "a simulated GPU runs no work"; break;
    default: *text = "unknown error (simulated GPU)"; break;
    }
    return CUDA_SUCCESS;
}

#define UNSUPPORTED(name)                                                                        \
    CUresult name(void);                                                                         \
    CUresult name(void) { return CUDA_ERROR_NOT_SUPPORTED; }
#include "cuda_unsupported.h"
