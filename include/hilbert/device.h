/* device.h - which device computes. */
#ifndef HILBERT_DEVICE_H
#define HILBERT_DEVICE_H

/* Borrows its strings. */
typedef struct hil_device_choice {
    /* "auto" or NULL: a GPU where there is one, otherwise the CPU; "cpu"; "cuda": a GPU (with
       several ranks on a machine each has one); "cuda:N" */
    const char *name;
    /* Folders, separated by colons, of Python environments that may have cuBLAS and cuDNN; the
       system's own folders are known. May be NULL. */
    const char *prefixes;
} hil_device_choice;

#endif
