/* What /etc/gpu-simulated says, for both simulated libraries.
 *
 * KEY=VALUE lines: those of the host; KEY, what all its GPUs are like when healthy; gpuN.KEY, what
 * GPU N (in the order of the PCI bus) is like instead. All but what a program must not see change
 * is read anew at each call: a test edits the file while a program watches.
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
#define SIMULATED_LINE 4096
#define SIMULATED_PROCESSES 64

struct simulated {
    int present; /* 0: no configuration, so no GPU and no driver either */
    unsigned int count;
    char name[96];
    unsigned long long memory_mib;
    char driver_version[64];
    int cuda_version; /* 11040 for 11.4, as cuDriverGetVersion answers */
    int major, minor; /* compute capability */
    unsigned int pci_device, pci_subsystem, pci_class;
    char uuids[SIMULATED_MAXIMUM][48];
};

struct simulated_work {
    unsigned int count;
    struct {
        unsigned int pid;
        unsigned long long mib;
    } processes[SIMULATED_PROCESSES];
};

/* The bus of GPU `index`; the PCI entries of the host agree (gpu.py: address). */
static inline unsigned int simulated_bus(unsigned int index) { return 0x3b + index; }

/* Splits a line at its first '='; the value, or NULL for a comment. */
static inline char *simulated_value(char *line) {
    char *value = strchr(line, '=');
    if (line[0] == '#' || !value)
        return NULL;
    *value++ = '\0';
    value[strcspn(value, "\r\n")] = '\0';
    return value;
}

/* The value of a line of the file, the last of its name; 0 where there is none. */
static inline int simulated_line(const char *name, char value[SIMULATED_LINE]) {
    char line[SIMULATED_LINE], *found;
    int there = 0;
    FILE *file = fopen(SIMULATED_CONFIG, "r");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file)) {
        found = simulated_value(line);
        if (found && !strcmp(line, name)) {
            memcpy(value, found, strlen(found) + 1);
            there = 1;
        }
    }
    fclose(file);
    return there;
}

/* What GPU `index` alone has for this key; 0 where it has nothing of its own. */
static inline int simulated_own(unsigned int index, const char *key, char value[SIMULATED_LINE]) {
    char name[64];
    snprintf(name, sizeof name, "gpu%u.%s", index, key);
    return simulated_line(name, value);
}

/* A dotted version's two numbers. */
static inline void simulated_version(const char *value, int *major, int *minor) {
    char *rest;
    *major = (int)strtol(value, &rest, 10);
    *minor = *rest == '.' ? (int)strtol(rest + 1, NULL, 10) : 0;
}

static inline void simulated_read(struct simulated *gpu) {
    char line[SIMULATED_LINE];
    FILE *file;

    memset(gpu, 0, sizeof *gpu);
    gpu->pci_class = 0x030200;
    file = fopen(SIMULATED_CONFIG, "r");
    if (!file)
        return;
    gpu->present = 1;
    while (fgets(line, sizeof line, file)) {
        char *value = simulated_value(line);
        if (!value)
            continue;
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
            int major, minor;
            simulated_version(value, &major, &minor);
            gpu->cuda_version = major * 1000 + minor * 10;
        } else if (!strcmp(line, "compute_capability")) {
            simulated_version(value, &gpu->major, &gpu->minor);
        } else if (!strcmp(line, "pci_device")) {
            gpu->pci_device = (unsigned int)strtoul(value, NULL, 16);
        } else if (!strcmp(line, "pci_subsystem")) {
            gpu->pci_subsystem = (unsigned int)strtoul(value, NULL, 16);
        } else if (!strcmp(line, "pci_class")) {
            gpu->pci_class = (unsigned int)strtoul(value, NULL, 16);
        } else if (!strcmp(line, "uuids")) {
            unsigned int index;
            for (index = 0; *value && index < SIMULATED_MAXIMUM; index++) {
                size_t length = strcspn(value, ",");
                snprintf(gpu->uuids[index], sizeof gpu->uuids[index], "%.*s",
                         (int)(length > 47 ? 47 : length), value);
                value += length + (value[length] == ',');
            }
        }
    }
    fclose(file);
}

/* The number at a place of a comma list; `fallback` where the list is shorter. */
static inline unsigned long long simulated_nth(const char *list, unsigned int place,
                                               unsigned long long fallback) {
    while (place && *list) {
        list += strcspn(list, ",");
        list += *list == ',';
        place--;
    }
    return *list && *list != ',' ? strtoull(list, NULL, 10) : fallback;
}

static inline int simulated_in_list(const char *list, unsigned int number) {
    while (*list) {
        char *rest;
        unsigned long found = strtoul(list, &rest, 10);
        if (rest != list && found == number)
            return 1;
        list += strcspn(list, ",");
        list += *list == ',';
    }
    return 0;
}

/* The driver does not know this GPU, though it is on the bus. */
static inline int simulated_is_missing(unsigned int index) {
    char value[SIMULATED_LINE];
    return simulated_line("missing", value) && simulated_in_list(value, index);
}

/* It has fallen off the bus. */
static inline int simulated_is_lost(unsigned int index) {
    char value[SIMULATED_LINE];
    return simulated_own(index, "lost", value) && simulated_nth(value, 0, 0);
}

/* CUDA lists no such device to a program that starts now. */
static inline int simulated_is_gone(unsigned int index) {
    return simulated_is_missing(index) || simulated_is_lost(index);
}

/* PID:MIB,... of GPU `index`; the host's line without a GPU's number is that of GPU 0. */
static inline void simulated_work(unsigned int index, struct simulated_work *work) {
    char line[SIMULATED_LINE], *value = line;
    memset(work, 0, sizeof *work);
    if (!simulated_own(index, "processes", line) && (index || !simulated_line("processes", line)))
        return;
    while (*value && work->count < SIMULATED_PROCESSES) {
        char *rest;
        unsigned long pid = strtoul(value, &rest, 10);
        if (rest == value)
            return;
        work->processes[work->count].pid = (unsigned int)pid;
        if (*rest == ':')
            work->processes[work->count].mib = strtoul(rest + 1, &rest, 10);
        work->count++;
        value = rest + (*rest == ',');
    }
}

static inline unsigned long long simulated_used_mib(const struct simulated_work *work,
                                                    unsigned long long memory_mib) {
    unsigned long long sum = 0;
    unsigned int index;
    for (index = 0; index < work->count; index++)
        sum += work->processes[index].mib;
    return sum > memory_mib ? memory_mib : sum;
}

#endif
