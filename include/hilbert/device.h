/* device.h - the choice of the device that computes. */
#ifndef HILBERT_DEVICE_H
#define HILBERT_DEVICE_H

/* Borrows its strings. */
typedef struct hil_device_choice {
    /* "auto" or NULL: a GPU if there is one, otherwise the CPU; "cpu"; "cuda": a GPU (one for each
       rank on a machine); "cuda:N" */
    const char *name;
    /* Folders, separated by colons, of Python environments to search for cuBLAS and cuDNN, besides
       the system's folders. May be NULL. */
    const char *prefixes;
} hil_device_choice;

#endif
