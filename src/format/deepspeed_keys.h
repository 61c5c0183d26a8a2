/* deepspeed_keys.h - the keys of ds_config.json, and what each means here. */
#ifndef HIL_FORMAT_DEEPSPEED_KEYS_H
#define HIL_FORMAT_DEEPSPEED_KEYS_H

#include "hilbert/deepspeed.h"

typedef enum hil_deepspeed_use {
    HIL_DEEPSPEED_NUMBER,   /* goes into a field of hil_deepspeed_config */
    HIL_DEEPSPEED_READ,     /* is read by name */
    HIL_DEEPSPEED_HARMLESS, /* changes no number here, with all that is in it */
    HIL_DEEPSPEED_TRUE,     /* must be true */
    HIL_DEEPSPEED_FALSE,    /* must be false, or an object with nothing in it that is enabled */
    HIL_DEEPSPEED_NONE,     /* must be empty */
    HIL_DEEPSPEED_SINGLE    /* a degree of parallelism: must be at most 1 */
} hil_deepspeed_use;

typedef struct hil_deepspeed_key {
    const char *path; /* names joined by dots */
    hil_deepspeed_use use;
    size_t offset;    /* of the number */
    double low, high; /* its range */
    const char *why;  /* other values are refused; NULL: the feature does not exist here */
} hil_deepspeed_key;

extern const hil_deepspeed_key hil_deepspeed_keys[];
extern const size_t hil_deepspeed_key_count;

#endif
