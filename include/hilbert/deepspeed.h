/* deepspeed.h - ds_config.json: what DeepSpeed's file of settings says, as data. */
#ifndef HILBERT_DEEPSPEED_H
#define HILBERT_DEEPSPEED_H

#include <stddef.h>

#include "hilbert/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hil_deepspeed_origin {
    HIL_DEEPSPEED_ABSENT,
    HIL_DEEPSPEED_AUTO, /* the file says "auto": the caller decides */
    HIL_DEEPSPEED_GIVEN
} hil_deepspeed_origin;

typedef struct hil_deepspeed_number {
    double value; /* if absent, DeepSpeed's default; NaN: it has none, or the file says "auto" */
    hil_deepspeed_origin origin;
} hil_deepspeed_number;

typedef struct hil_deepspeed_config {
    size_t size; /* set by the caller to the size of this structure */
    void *owner; /* of the strings */
    hil_deepspeed_number batch, micro_batch, accumulation;
    const char *optimizer; /* "adamw" or "lion"; NULL: the file has none */
    hil_deepspeed_number lr, beta1, beta2, eps, weight_decay;
    hil_curve_kind scheduler; /* HIL_CURVE_NONE: the file has none */
    bool warmup_linear;
    hil_deepspeed_number warmup_low, warmup_high, warmup, total;
    hil_deepspeed_number cosine_end; /* as `end` of hil_curve */
    const char *dtype;               /* "bf16", "fp16", "fp32"; absent: "fp32" */
    hil_deepspeed_origin dtype_origin;
    hil_loss_scale loss_scale; /* of fp16 */
    hil_deepspeed_number clip; /* highest gradient norm; 0: none */
    hil_deepspeed_number stage;
    const char *optimizer_device, *weights_device; /* "none", "cpu", "nvme" */
    const char *disk[2];                           /* folders of "nvme", each once */
    size_t disks;
    const char *notes; /* a line about what has no effect here; "": none */
} hil_deepspeed_config;

/* Reads a file, or a text that errors call `name`. Keys that would change what is computed and that
   hilbert does not have, unknown keys and values out of range are HIL_ERR_USAGE, with the key in
   the message. The caller sets out->size first and frees with hil_deepspeed_free. */
HIL_API hil_status hil_deepspeed_read(const char *path, hil_deepspeed_config *out);
HIL_API hil_status hil_deepspeed_parse(const char *text, size_t bytes, const char *name,
                                       hil_deepspeed_config *out);
HIL_API void hil_deepspeed_free(hil_deepspeed_config *config);

/* 0: the file leaves it open. */
typedef struct hil_deepspeed_batches {
    int64_t batch;       /* sequences of a step, over all ranks */
    int64_t micro_batch; /* sequences that a rank computes at once */
    int64_t accumulation;
} hil_deepspeed_batches;
/* Completes batch = micro_batch x accumulation x ranks as DeepSpeed does; refuses numbers for which
   it does not hold. */
HIL_API hil_status hil_deepspeed_complete(const hil_deepspeed_config *config, int64_t ranks,
                                          hil_deepspeed_batches *out);
/* The scheduler's curve, with `lr` and `warmup` where the file says "auto" or nothing. */
HIL_API hil_curve hil_deepspeed_curve(const hil_deepspeed_config *config, double lr,
                                      int64_t warmup);

#ifdef __cplusplus
}
#endif
#endif
