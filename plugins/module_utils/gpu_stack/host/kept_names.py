"""Names under which files of others are kept."""

import os

SAVED = ".provision-saved"


def free_name(path, exists=os.path.lexists):
    """PATH.provision-saved, numbered from 2 on where there are some."""
    name, number = path + SAVED, 1
    while exists(name):
        number += 1
        name = "{0}{1}.{2}".format(path, SAVED, number)
    return name
