/* ledger.h - log probabilities of answers under the reference, kept in a file. */
#ifndef HIL_DATA_LEDGER_H
#define HIL_DATA_LEDGER_H

#include "base/alloc.h"

/* [Note: ledger] A header, then a record for each window of a dataset, in their order: a
   checksum, the number of documents, and `sums` numbers for each document. A record is whole or it
   does not count, so a file that was cut off by a kill is a shorter file. The header's key stands
   for all that the numbers follow from: data, reference model, precision. */
typedef struct hil_ledger_form {
    uint64_t key;
    int64_t windows, seq; /* of the dataset */
    int64_t sums;         /* 1, or 2: of mismatched answers too, after all of the first */
} hil_ledger_form;

/* Keeps the offset of every record in memory. For one thread. */
typedef struct hil_ledger hil_ledger;

/* Opens a file for reading; its path is copied. One that is missing, or of another form, has no
   windows. */
hil_status hil_ledger_open(hil_ledger **out, const char *path, const hil_ledger_form *form);
void hil_ledger_close(hil_ledger *file);
/* Windows with a whole record, from the first on. */
int64_t hil_ledger_windows(const hil_ledger *file);
/* The numbers of a window that has `documents` documents; `mismatched` gets the second ones, if the
   form has them. Fails if the file was damaged since it was opened. */
hil_status hil_ledger_read(hil_ledger *file, int64_t window, int64_t documents, double *logp,
                           double *mismatched);

/* Begins writing after the first `windows` records, which remain. */
hil_status hil_ledger_begin(hil_ledger *file, int64_t windows);
/* Adds the record of the next window: form.sums * documents numbers. */
hil_status hil_ledger_add(hil_ledger *file, const double *sum, int64_t documents);
/* Hands what was added to the system, where it survives a kill of this process. */
hil_status hil_ledger_flush(hil_ledger *file);
/* Ends writing: makes the file durable. */
hil_status hil_ledger_end(hil_ledger *file);

#endif
