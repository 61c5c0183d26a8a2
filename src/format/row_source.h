/* row_source.h - a file of rows in columns with names, whatever its format. */
#ifndef HIL_FORMAT_ROW_SOURCE_H
#define HIL_FORMAT_ROW_SOURCE_H

#include "base/fail.h"

#include <jansson.h>

/* Declares the calls on an open file of a format, hil_NOUN_key and so on:
   key: the name of a column; NULL: no more. *at is 0 for the first, and then goes to the next.
   select: chooses the columns that are read, before the first row; keys that rows do not have are
   left out, no other column is looked at. A row may hold `row_max` bytes of values.
   next: the next row, which the caller releases with json_decref; NULL after the last. Not to be
   called again after a failure.
   number: that of the last row, from 1. done: the share that was read, for progress. */
#define HIL_ROW_SOURCE_CALLS(noun)                                                                 \
    const char *hil_##noun##_key(const hil_##noun *file, size_t *at);                              \
    hil_status hil_##noun##_select(hil_##noun *file, const char *const *keys, size_t count,        \
                                   size_t row_max);                                                \
    hil_status hil_##noun##_next(hil_##noun *file, json_t **row);                                  \
    int64_t hil_##noun##_number(const hil_##noun *file);                                           \
    double hil_##noun##_done(const hil_##noun *file);                                              \
    extern const hil_row_source hil_##noun##_row_source

/* Functions of a format, for callers that read any. */
typedef struct hil_row_source {
    const char *unit;   /* what rows are numbered by: "row", or "line" */
    const char *rename; /* how to rename columns, for errors */
    hil_status (*open)(void **file, const char *path);
    void (*close)(void *file);
    const char *(*key)(const void *file, size_t *at);
    hil_status (*select)(void *file, const char *const *keys, size_t count, size_t row_max);
    hil_status (*next)(void *file, json_t **row);
    int64_t (*number)(const void *file); /* of the last row in its unit, from 1 */
    double (*done)(const void *file);    /* the share that was read, for progress */
} hil_row_source;

/* Defines hil_NOUN_row_source by hil_NOUN_open, hil_NOUN_close and the calls. */
#define HIL_ROW_SOURCE(noun, unit_word, rename_text)                                               \
    static hil_status source_open(void **file, const char *path)                                   \
    {                                                                                              \
        hil_##noun *opened;                                                                        \
        hil_status status = hil_##noun##_open(&opened, path);                                      \
        *file = opened;                                                                            \
        return status;                                                                             \
    }                                                                                              \
    static void source_close(void *file)                                                           \
    {                                                                                              \
        hil_##noun##_close(file);                                                                  \
    }                                                                                              \
    static const char *source_key(const void *file, size_t *at)                                    \
    {                                                                                              \
        return hil_##noun##_key(file, at);                                                         \
    }                                                                                              \
    static hil_status source_select(void *file, const char *const *keys, size_t count,             \
                                    size_t row_max)                                                \
    {                                                                                              \
        return hil_##noun##_select(file, keys, count, row_max);                                    \
    }                                                                                              \
    static hil_status source_next(void *file, json_t **row)                                        \
    {                                                                                              \
        return hil_##noun##_next(file, row);                                                       \
    }                                                                                              \
    static int64_t source_number(const void *file)                                                 \
    {                                                                                              \
        return hil_##noun##_number(file);                                                          \
    }                                                                                              \
    static double source_done(const void *file)                                                    \
    {                                                                                              \
        return hil_##noun##_done(file);                                                            \
    }                                                                                              \
    const hil_row_source hil_##noun##_row_source = {unit_word,    rename_text,   source_open,      \
                                                    source_close, source_key,    source_select,    \
                                                    source_next,  source_number, source_done}

#endif
