/* ledger.c - the file of the reference's log probabilities: records of windows. */
#include "data/ledger.h"

#include "base/hash.h"
#include "io/file.h"
#include "io/reader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct header {
    char magic[8];
    uint64_t key;
    int64_t windows, seq, sums;
    uint64_t sum; /* checksum */
};

struct record {
    uint64_t sum; /* checksum, also of its number */
    int64_t documents;
};

static const char magic[8] = "HILREF1";

struct hil_ledger {
    char path[HIL_PATH_MAX];
    hil_ledger_form form;
    hil_reader *reader; /* NULL: there is no file */
    uint64_t *offset;   /* of the records, and of what follows the last */
    int64_t windows;
    double *scratch; /* of one record */
    size_t room;
    FILE *output; /* NULL: not written */
};

static uint64_t header_sum(const struct header *h)
{
    return hil_hash(0, h, offsetof(struct header, sum));
}

static struct header header_of(const hil_ledger_form *form)
{
    struct header h = {
        .key = form->key, .windows = form->windows, .seq = form->seq, .sums = form->sums};
    memcpy(h.magic, magic, sizeof magic);
    h.sum = header_sum(&h);
    return h;
}

static uint64_t record_sum(const hil_ledger *f, int64_t number, int64_t documents,
                           const double *sum)
{
    uint64_t hash = hil_hash(f->form.key ^ (uint64_t)number, &documents, sizeof documents);
    return hil_hash(hash, sum, (size_t)(f->form.sums * documents) * sizeof *sum);
}

/* Reads record `number` into f->scratch. *documents is -1 if it is not whole. */
static hil_status read_record(hil_ledger *f, int64_t number, int64_t *documents)
{
    struct record r;
    size_t got;
    uint64_t at = f->offset[number];
    *documents = -1;
    HIL_TRY(hil_reader_read(f->reader, at, &r, sizeof r, &got));
    if (got < sizeof r || r.documents < 0 || r.documents > f->form.seq) return HIL_OK;
    size_t count = (size_t)(f->form.sums * r.documents);
    HIL_TRY(HIL_GROW(&f->scratch, &f->room, count));
    HIL_TRY(
        hil_reader_read(f->reader, at + sizeof r, f->scratch, count * sizeof *f->scratch, &got));
    if (got < count * sizeof *f->scratch) return HIL_OK;
    if (r.sum == record_sum(f, number, r.documents, f->scratch)) *documents = r.documents;
    return HIL_OK;
}

static uint64_t record_bytes(const hil_ledger *f, int64_t documents)
{
    return sizeof(struct record) + (uint64_t)(f->form.sums * documents) * sizeof(double);
}

/* Finds the records of a file of this form. */
static hil_status find_records(hil_ledger *f)
{
    struct header is, wanted = header_of(&f->form);
    size_t got;
    if (!hil_file_exists(f->path)) return HIL_OK;
    HIL_TRY(hil_reader_open(&f->reader, f->path));
    HIL_TRY(hil_reader_read(f->reader, 0, &is, sizeof is, &got));
    if (got < sizeof is || memcmp(&is, &wanted, sizeof is) != 0) return HIL_OK;
    while (f->windows < f->form.windows) {
        int64_t documents;
        HIL_TRY(read_record(f, f->windows, &documents));
        if (documents < 0) return HIL_OK;
        ++f->windows;
        f->offset[f->windows] = f->offset[f->windows - 1] + record_bytes(f, documents);
    }
    return HIL_OK;
}

hil_status hil_ledger_open(hil_ledger **out, const char *path, const hil_ledger_form *form)
{
    hil_ledger *f = NULL;
    hil_status status;
    *out = NULL;
    HIL_TRY_DONE(HIL_ALLOC(1, &f));
    f->form = *form;
    if (snprintf(f->path, sizeof f->path, "%s", path) >= (int)sizeof f->path)
        HIL_TRY_DONE(hil_fail(HIL_ERR_INPUT, "path too long: %.80s...", path));
    HIL_TRY_DONE(HIL_ALLOC(form->windows + 1, &f->offset));
    f->offset[0] = sizeof(struct header);
    HIL_TRY_DONE(find_records(f));
    *out = f;
    return HIL_OK;
done:
    hil_ledger_close(f);
    return status;
}

void hil_ledger_close(hil_ledger *f)
{
    if (!f) return;
    if (f->output) (void)!fclose(f->output);
    hil_reader_close(f->reader);
    hil_free(f->offset);
    hil_free(f->scratch);
    hil_free(f);
}

int64_t hil_ledger_windows(const hil_ledger *f)
{
    return f->windows;
}

hil_status hil_ledger_read(hil_ledger *f, int64_t window, int64_t documents, double *logp,
                           double *mismatched)
{
    int64_t count;
    size_t bytes = (size_t)documents * sizeof *logp;
    assert(window >= 0 && window < f->windows);
    HIL_TRY(read_record(f, window, &count));
    if (count != documents)
        return hil_fail(HIL_ERR_IO, "%s was damaged: remove it, and --resume computes it again",
                        f->path);
    memcpy(logp, f->scratch, bytes);
    if (f->form.sums > 1) memcpy(mismatched, f->scratch + documents, bytes);
    return HIL_OK;
}

static hil_status cannot_write(const hil_ledger *f)
{
    return hil_fail(HIL_ERR_IO, "cannot write %s: %s", f->path, strerror(errno));
}

hil_status hil_ledger_begin(hil_ledger *f, int64_t windows)
{
    const struct header h = header_of(&f->form);
    assert(windows <= f->windows && !f->output);
    f->windows = windows;
    f->output = fopen(f->path, windows ? "r+e" : "we");
    if (!f->output) return cannot_write(f);
    off_t end = (off_t)f->offset[windows];
    if (!windows && fwrite(&h, sizeof h, 1, f->output) != 1) return cannot_write(f);
    if (fflush(f->output) != 0 || ftruncate(fileno(f->output), end) != 0 ||
        fseeko(f->output, end, SEEK_SET) != 0)
        return cannot_write(f);
    return HIL_OK;
}

hil_status hil_ledger_add(hil_ledger *f, const double *sum, int64_t documents)
{
    struct record r = {record_sum(f, f->windows, documents, sum), documents};
    size_t count = (size_t)(f->form.sums * documents);
    assert(f->output && f->windows < f->form.windows);
    if (fwrite(&r, sizeof r, 1, f->output) != 1 ||
        fwrite(sum, sizeof *sum, count, f->output) != count)
        return cannot_write(f);
    ++f->windows;
    f->offset[f->windows] = f->offset[f->windows - 1] + record_bytes(f, documents);
    return HIL_OK;
}

hil_status hil_ledger_flush(hil_ledger *f)
{
    return fflush(f->output) == 0 ? HIL_OK : cannot_write(f);
}

hil_status hil_ledger_end(hil_ledger *f)
{
    bool good = fflush(f->output) == 0 && fsync(fileno(f->output)) == 0;
    if (fclose(f->output) != 0) good = false;
    f->output = NULL;
    return good ? HIL_OK : cannot_write(f);
}
