/* What /etc/gpu-simulated says, for both simulated libraries.
 *
 * ISO C99 only and no newer libc symbol than Debian 11's: this is compiled on the controller
 * and runs in hosts of other releases. */
#ifndef SIMULATED_H
#define SIMULATED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef SIMULATED_CONFIG /* a test has a file of its own */
#define SIMULATED_CONFIG "/etc/gpu-simulated"
#endif
#define SIMULATED_MAXIMUM 16

struct simulated {
    int present; /* 0: no configuration, so no GPU and no driver either */
    unsigned int count;
    char name[96];
    unsigned long long memory_mib;
    char driver_version[64];
    int cuda_version; /* 11040 for 11.4, as cuDriverGetVersion answers */
    int major, minor; /* compute capability */
    unsigned int pci_device, pci_subsystem;
    char uuids[SIMULATED_MAXIMUM][48];
    unsigned int process_count;
    struct {
        unsigned int pid;
        unsigned long long mib;
    } processes[64];
};

/* The bus of GPU `index`; the PCI entries of the host agree (gpu.py: address). */
static inline unsigned int simulated_bus(unsigned int index) { return 0x3b + index; }

static inline void simulated_read(struct simulated *gpu) {
    char line[4096];
    FILE *file;

    memset(gpu, 0, sizeof *gpu);
    file = fopen(SIMULATED_CONFIG, "r");
    if (!file)
        return;
    gpu->present = 1;
    while (fgets(line, sizeof line, file)) {
        char *value = strchr(line, '=');
        if (line[0] == '#' || !value)
            continue;
        *value++ = '\0';
        value[strcspn(value, "\r\n")] = '\0';
        if (!strcmp(line, "count")) {
            unsigned long count = strtoul(value, NULL, 10);
            gpu->count = count > SIMULATED_MAXIMUM ? SIMULATED_MAXIMUM : (unsigned int)count;
        } else if (!strcmp(line, "name")) {
            snprintf(gpu->name, sizeof gpu->name, "%.95s", value);
        } else if (!strcmp(line, "memory_mib")) {
            gpu->memory_mib = strtoul(value, NULL, 10);
        } else if (!strcmp(line, "driver_version")) {
            snprintf(gpu->driver_version, sizeof gpu->driver_version, "%.63s", value);
        } else if (!strcmp(line, "cuda_version")) {
            char *rest;
            long major = strtol(value, &rest, 10);
            gpu->cuda_version = (int)(major * 1000);
            if (*rest == '.')
                gpu->cuda_version += (int)(strtol(rest + 1, NULL, 10) * 10);
        } else if (!strcmp(line, "compute_capability")) {
            char *rest;
            gpu->major = (int)strtol(value, &rest, 10);
            if (*rest == '.')
                gpu->minor = (int)strtol(rest + 1, NULL, 10);
        } else if (!strcmp(line, "pci_device")) {
            gpu->pci_device = (unsigned int)strtoul(value, NULL, 16);
        } else if (!strcmp(line, "pci_subsystem")) {
            gpu->pci_subsystem = (unsigned int)strtoul(value, NULL, 16);
        } else if (!strcmp(line, "uuids")) {
            unsigned int index;
            for (index = 0; *value && index < SIMULATED_MAXIMUM; index++) {
                size_t length = strcspn(value, ",");
                snprintf(gpu->uuids[index], sizeof gpu->uuids[index], "%.*s",
                         (int)(length > 47 ? 47 : length), value);
                value += length + (value[length] == ',');
            }
        } else if (!strcmp(line, "processes")) {
            while (*value && gpu->process_count < 64) {
                char *rest;
                unsigned int index = gpu->process_count;
                gpu->processes[index].pid = (unsigned int)strtoul(value, &rest, 10);
                if (rest == value)
                    break;
                if (*rest == ':')
                    gpu->processes[index].mib = strtoul(rest + 1, &rest, 10);
                gpu->process_count++;
                value = rest + (*rest == ',');
            }
        }
    }
    fclose(file);
}

static inline unsigned long long simulated_used_mib(const struct simulated *gpu) {
    unsigned long long sum = 0;
    unsigned int index;
    for (index = 0; index < gpu->process_count; index++)
        sum += gpu->processes[index].mib;
    return sum > gpu->memory_mib ? gpu->memory_mib : sum;
}

#endif
