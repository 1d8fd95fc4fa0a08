/* How GPUs are connected: NVLinks, and what lies between two on the PCI bus. */

/* A link that the device has; fails as NVML does. */
static nvmlReturn_t check_link(nvmlDevice_t device, unsigned int link) {
    unsigned long long links;
    DEVICE(device);
    links = health_number(device, "nvlinks");
    if (!links)
        return NVML_ERROR_NOT_SUPPORTED;
    return link < links ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

/* Not in the list of those that are down; a card without its bridge has all there. */
static int link_is_up(nvmlDevice_t device, unsigned int link) {
    char down[SIMULATED_LINE];
    return !health(device, "nvlinks_down", down) || !simulated_in_list(down, link);
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
                                      unsigned int *active) {
    nvmlReturn_t result = check_link(device, link);
    return result ? result : number(active, (unsigned int)link_is_up(device, link));
}

/* nvmlNvlinkVersion_t: 2.0 up to Turing, 3.0, 4.0. */
nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link,
                                        unsigned int *version) {
    nvmlReturn_t result = check_link(device, link);
    return result ? result : number(version, gpu.major < 8 ? 2 : gpu.major == 8 ? 4 : 6);
}

/* The GPU at a link's other end: the one that is named, else the others in turn. */
static nvmlReturn_t peer_of(nvmlDevice_t device, unsigned int link, unsigned int *peer) {
    char value[SIMULATED_LINE];
    unsigned int next;
    nvmlReturn_t result = check_link(device, link);
    if (result != NVML_SUCCESS)
        return result;
    if (health(device, "nvlink_peer", value)) {
        *peer = (unsigned int)simulated_nth(value, link, SIMULATED_MAXIMUM);
        return *peer < gpu.count ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    }
    if (gpu.count < 2 || !link_is_up(device, link))
        return NVML_ERROR_NOT_SUPPORTED;
    next = link % (gpu.count - 1);
    *peer = next < device->index ? next : next + 1;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
                                                 struct pci_v3 *pci) {
    unsigned int peer;
    nvmlReturn_t result = peer_of(device, link, &peer);
    if (result == NVML_SUCCESS && !pci)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        fill_pci_v3(peer, pci);
    return result;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link,
                                              struct pci_v2 *pci) {
    struct pci_v3 found;
    nvmlReturn_t result;
    if (!pci)
        return NVML_ERROR_INVALID_ARGUMENT;
    result = nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, &found);
    if (result == NVML_SUCCESS)
        fill_pci_v2(found.bus - simulated_bus(0), pci);
    return result;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
                                                 unsigned int *kind) {
    unsigned int peer;
    nvmlReturn_t result = peer_of(device, link, &peer);
    return result ? result : number(kind, 0); /* a GPU */
}

/* `counter`: replays, recoveries, and three kinds of CRC and ECC errors; all have the same count. */
nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link,
                                             unsigned int counter, unsigned long long *count) {
    nvmlReturn_t result = check_link(device, link);
    if (result != NVML_SUCCESS)
        return result;
    if (counter > 4)
        return NVML_ERROR_INVALID_ARGUMENT;
    return large_number(count, health_number(device, "nvlink_errors"));
}

/* nvmlGpuTopologyLevel_t */
static int topology_level(const char *word, unsigned int *level) {
    static const struct {
        const char *word;
        unsigned int level;
    } levels[] = {{"internal", 0},    {"single", 10}, {"multiple", 20},
                  {"hostbridge", 30}, {"node", 40},   {"system", 50}};
    unsigned int index;
    for (index = 0; index < sizeof levels / sizeof *levels; index++)
        if (!strcmp(word, levels[index].word)) {
            *level = levels[index].level;
            return 1;
        }
    return 0;
}

static int topology_line(unsigned int one, unsigned int other, char value[SIMULATED_LINE]) {
    char name[64];
    snprintf(name, sizeof name, "topology.%u-%u", one, other);
    return simulated_line(name, value);
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other,
                                                 unsigned int *level) {
    char value[SIMULATED_LINE];
    DEVICE(one);
    DEVICE(other);
    if (!level)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (one->index == other->index) {
        *level = 0;
        return NVML_SUCCESS;
    }
    if (!topology_line(one->index, other->index, value) &&
        !topology_line(other->index, one->index, value) && !simulated_line("topology", value))
        strcpy(value, "node"); /* all on one processor's lanes, each behind its own port */
    return topology_level(value, level) ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}
