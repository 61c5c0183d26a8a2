/* run.h - whole jobs on model folders: what the program `hilbert` does. */
#ifndef HILBERT_RUN_H
#define HILBERT_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "hilbert/account.h"
#include "hilbert/comm.h"
#include "hilbert/device.h"
#include "hilbert/io.h"
#include "hilbert/memory.h"
#include "hilbert/observer.h"
#include "hilbert/preference.h"
#include "hilbert/schedule.h"
#include "hilbert/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hil_schedule {
    HIL_SCHEDULE_COSINE,
    HIL_SCHEDULE_LINEAR,
    HIL_SCHEDULE_CONSTANT
} hil_schedule;

/* Conversations, and records of prompt and completion, in the data. */
typedef struct hil_examples {
    int64_t count;
    int64_t cut, cut_tokens; /* records longer than a window, and the tokens cut from them */
    int64_t
        left_out; /* records with nothing to predict: no completion, or the prompt fills a window */
} hil_examples;

/* An adapter: small matrices that are trained beside a frozen model. */
typedef struct hil_adapter_choice {
    const char *source; /* "lora": a new one; else the folder of one, as PEFT writes it; NULL: none
                           is used, and all below must be as hil_train_defaults sets it */
    int64_t rank;       /* 0: 16 */
    double alpha;       /* the adapter's output is scaled by alpha / rank; 0: twice the rank */
    double dropout;     /* below 0: none */
    const char *const *target; /* linear layers by name or shell pattern; none: all of the blocks */
    size_t targets;
    const char *const *save; /* modules that are trained whole */
    size_t saves;
    bool rslora; /* scale by alpha / sqrt(rank) */
    bool dora;   /* train the norm of each weight's rows too */
} hil_adapter_choice;

/* Every option of `hilbert train`. hil_train_defaults fills it; strings and lists are borrowed. */
typedef struct hil_train_options {
    size_t size;             /* set by hil_train_defaults */
    const char *model;       /* model folder or config.json */
    const char *const *data; /* files */
    size_t data_count;
    const char *tokenizer; /* "bytes": the bytes of a text are its tokens; NULL: tokenizer.json */
    const char *out;
    int64_t steps;             /* 0: from epochs */
    double epochs;             /* 0 with steps 0: one epoch */
    int64_t seq;               /* tokens of a sequence; 0: the model's positions, at most 1024 */
    int64_t batch;             /* sequences per step */
    int64_t micro_batch;       /* sequences a rank computes at once; 0: chosen by rule */
    const char *optimizer;     /* "adamw", "lion", "adamw8bit", "muon" */
    const char *const *freeze; /* shell patterns: parameters with such names are not trained */
    size_t freeze_count;
    hil_adapter_choice adapter;
    double lr, weight_decay, clip, beta1, eps;
    double beta2; /* below 0: the optimizer's default */
    hil_schedule schedule;
    int64_t warmup;
    const char *dtype;      /* "bf16", "fp32", "fp16", "fp8" */
    const char *save_dtype; /* NULL: the input's */
    uint64_t seed;
    int threads; /* of each rank; 0: all, divided by the ranks of a machine */
    bool shuffle;
    bool recompute;        /* keep only each segment's inputs; backward recomputes the rest */
    const char *eval_data; /* one path; see also eval_sets */
    double eval_fraction;
    int64_t eval_every; /* steps; 0: only at the end, if there is data to evaluate on */
    int64_t save_every; /* 0: only at the end */
    int64_t keep;       /* checkpoints kept; 0: neither checkpoints nor a model are written */
    bool resume, overwrite;
    uint64_t tile_size;
    hil_device_choice device;
    hil_memory_options memory;
    int zero;                     /* stage of ZeRO, with several ranks: 1, 2 or 3; 0: 3 */
    bool prefetch;                /* fetch before use; false: for comparison only */
    const char *plan;             /* plan file to follow; NULL: the run plans for itself */
    const char *trace;            /* file for the timeline of rank 0, or of a plan; NULL: none */
    hil_comm *comm;               /* the ranks of the run; NULL: one rank */
    const char *probe_cache;      /* file that caches measured speeds; NULL: none */
    const volatile int *stop;     /* a non-zero value asks the run to stop; may be NULL */
    const char *format;           /* of records: "text", "prompt", "messages", "sharegpt", "alpaca",
                                     "tokens", "preference" or, as its first record shows, "auto" */
    const char *train_on;         /* what is learned of conversations: "assistant", "last", "all" */
    const char *const *eval_sets; /* to evaluate on, each for itself, beside eval_data */
    size_t eval_set_count;
    bool keep_best;   /* keep the checkpoint with the lowest eval loss; it becomes the model */
    int64_t patience; /* stop after so many evaluations without a lower loss; 0: never */
    const char *base_dtype; /* of the base of an adapter: "nf4", "int8", ...; NULL: dtype */
    /* What is minimized: "cross-entropy", or for pairs of answers "dpo", "robust", "ipo", "hinge",
       "apo_zero", "apo_down", "kto" with a reference (see `reference`), or "cpo", "simpo", "orpo".
     */
    const char *loss;
    double beta;     /* of losses that compare answers; 0: 0.1, with simpo 2 */
    hil_curve curve; /* instead of lr, schedule and warmup, unless its kind is HIL_CURVE_NONE */
    hil_loss_scale loss_scale; /* of fp16; all 0: the default */
    /* A checkpoint of DeepSpeed to go on from: weights, moments and step; NULL: none. */
    const char *resume_deepspeed;
    bool report;               /* write OUT/run.json and OUT/report.html while the run trains */
    const char *tensorboard;   /* folder for TensorBoard's event files; NULL: none */
    const char *command;       /* what the report calls the command of the run; NULL: nothing */
    int64_t sample_every;      /* steps between samples of text; 0: none */
    const char *sample_prompt; /* what samples continue; NULL: the beginning of a text */
    double min_lr;             /* what the rate falls to, with cosine and linear */
    hil_preference_choice preference; /* beside `loss` */
    /* Where `loss` has a reference: the folder of a model of the same shape; NULL: the model as it
       is loaded, without an adapter. */
    const char *reference;
    /* Compute what it says of the data before the first step. Without an adapter, and with
       `reference`, that is always so. */
    bool precompute_reference;
    /* Coefficient of a mixture's router z-loss: the mean over predicted tokens and layers of
       the square of log(sum(exp(logits))) of the router; 0: none. */
    double router_z_loss;
} hil_train_options;

typedef struct hil_train_result {
    int64_t steps, tokens, parameters;
    int64_t learned; /* tokens predicted in the steps since this start or resume */
    hil_examples examples;
    double first_loss, last_loss, eval_loss; /* eval_loss is NaN without evaluation */
    double seconds, tokens_per_second;
    int ranks;
    /* Source of the tokens: "tokenizer.json" or "bytes"; NULL: the data files hold token ids. */
    const char *tokenizer;
    uint64_t peak_bytes;      /* most resident memory of the process; of rank 0, as all below */
    hil_step_account account; /* peaks: the highest of any step; all else: sums over the steps */
    hil_tier_budgets budget;
    const char *limit; /* what steps waited for most: "compute", "disk", "host link", ... */
    int64_t best_step; /* of the lowest eval loss, with keep_best or patience; -1: none */
    double best_loss;
    bool stopped_early;    /* by patience */
    int64_t conversations; /* in the data */
} hil_train_result;

HIL_API void hil_train_defaults_sized(hil_train_options *options, size_t size);
#define hil_train_defaults(options) hil_train_defaults_sized(options, sizeof *(options))
/* Returns HIL_ERR_INTERRUPTED after a requested stop; the message says whether a checkpoint was
   written and how to resume. Starts threads and joins them before it returns. Any thread or signal
   handler may set `stop`. */
HIL_API hil_status hil_train(const hil_train_options *options, const hil_observer *observer,
                             hil_train_result *result);

typedef struct hil_eval_options {
    size_t size; /* set by hil_eval_defaults */
    const char *model;
    const char *adapter; /* folder of an adapter, as PEFT writes it; NULL: none */
    const char *const *data;
    size_t data_count;
    const char *tokenizer; /* as in training */
    int64_t seq, batch;    /* 0: as in training */
    const char *dtype;     /* "fp32" by default */
    int threads;
    hil_device_choice device;
    hil_memory_options memory;
    const char *cache;             /* folder for the tokens during the call; NULL: /tmp */
    hil_comm *comm;                /* the ranks that share the work; NULL: one rank */
    const volatile int *stop;      /* a non-zero value asks to stop; may be NULL */
    const char *format, *train_on; /* as in training */
    const char *base_dtype;        /* of the weights: "nf4", "int8", "fp8", "bf16"; NULL: dtype */
    const char *messages; /* a JSON file with one conversation, instead of data; NULL: none */
    const char *loss;     /* as in training */
    double beta;
    int64_t micro_batch; /* batch, by its name in training; 0: as `batch` says */
    hil_preference_choice preference;
} hil_eval_options;
typedef struct hil_eval_result {
    double loss, perplexity, seconds, seconds_to_first_batch;
    int64_t tokens;       /* predicted */
    double learned_share; /* fraction of the data's tokens that were predicted */
    hil_examples examples;
    hil_preferences preferences; /* with a loss of pairs, whose perplexity means nothing */
    double aux_loss;             /* as in hil_step_result */
} hil_eval_result;
HIL_API void hil_eval_defaults_sized(hil_eval_options *options, size_t size);
#define hil_eval_defaults(options) hil_eval_defaults_sized(options, sizeof *(options))
HIL_API hil_status hil_eval(const hil_eval_options *options, const hil_observer *observer,
                            hil_eval_result *result);

typedef struct hil_generate_options {
    size_t size; /* set by hil_generate_defaults */
    const char *model;
    const char *adapter;   /* as in hil_eval_options */
    const char *prompt;    /* NULL with `messages` */
    const char *tokenizer; /* as in training */
    int64_t max_tokens;
    double temperature; /* 0: greedy */
    int64_t top_k;      /* 0: all */
    double top_p;       /* 1: all */
    uint64_t seed;
    const char *dtype; /* NULL: that of the model's weights */
    int threads;
    hil_device_choice device;
    hil_memory_options memory;
    /* Called on the caller's thread with each piece of new text; a non-zero return stops. */
    int (*write)(void *context, const char *text, size_t size);
    void *write_context;
    const volatile int *stop;
    const char *messages; /* a JSON file with a conversation, instead of a prompt; NULL: none */
    const char *system;   /* hil_chat_open: the first message; NULL: none */
    /* hil_chat_open: tokens of the longest conversation; 0: the model's, at most 4096 */
    int64_t context;
    const char *base_dtype; /* of the weights: "nf4", "int8", "fp8", "bf16"; NULL: dtype */
} hil_generate_options;
/* Why a text ends. */
typedef enum hil_generate_end {
    HIL_GENERATE_END,    /* the model ended it */
    HIL_GENERATE_LENGTH, /* max_tokens, or no position is left */
    HIL_GENERATE_STOPPED /* by `stop`, or by `write` */
} hil_generate_end;
typedef struct hil_generate_result {
    int64_t prompt_tokens, tokens;
    double seconds, tokens_per_second; /* of generation alone, without loading the model */
    int64_t reused_tokens; /* of the prompt: their keys and values were kept from an earlier call */
    hil_generate_end end;
} hil_generate_result;
HIL_API void hil_generate_defaults_sized(hil_generate_options *options, size_t size);
#define hil_generate_defaults(options) hil_generate_defaults_sized(options, sizeof *(options))
HIL_API hil_status hil_generate(const hil_generate_options *options, hil_generate_result *result);

/* A conversation with a model, by the chat template of its folder. `prompt` and `messages` of the
   options are not used; `stop` ends a reply: reset it before the next one. */
HIL_API void hil_chat_defaults_sized(hil_generate_options *options, size_t size);
#define hil_chat_defaults(options) hil_chat_defaults_sized(options, sizeof *(options))
/* Owns the model and the messages. One thread at a time may use it. */
typedef struct hil_chat hil_chat;
/* Loads the model. Borrows the observer, and what the options point to, until hil_chat_close. */
HIL_API hil_status hil_chat_open(hil_chat **out, const hil_generate_options *options,
                                 const hil_observer *observer);
HIL_API void hil_chat_close(hil_chat *chat);
/* Adds the user's message and writes the model's reply. A reply that is stopped stays in the
   conversation as far as it was written. After a failure the conversation is as before; if it has
   become longer than the context, that is HIL_ERR_BUDGET. */
HIL_API hil_status hil_chat_say(hil_chat *chat, const char *text, hil_generate_result *result);
/* Forgets all messages but the system's. */
HIL_API hil_status hil_chat_reset(hil_chat *chat);
/* Forgets all messages and sets the system's; NULL or "": none. */
HIL_API hil_status hil_chat_set_system(hil_chat *chat, const char *text);

/* Adds an adapter to the weights of its model: the result is a model folder of its own. */
typedef struct hil_merge_options {
    size_t size; /* set by hil_merge_defaults */
    const char *model;
    const char *adapter; /* folder of an adapter, as PEFT writes it */
    const char *out;
    const char *dtype; /* of the weights written; NULL: the model's */
    bool overwrite;
    const volatile int *stop;
} hil_merge_options;
typedef struct hil_merge_result {
    int64_t tensors, merged; /* merged: tensors that the adapter changed */
    const char *dtype;
} hil_merge_result;
HIL_API void hil_merge_defaults_sized(hil_merge_options *options, size_t size);
#define hil_merge_defaults(options) hil_merge_defaults_sized(options, sizeof *(options))
/* Reads and writes piece by piece: needs memory for the matrices of one layer's adapter only. */
HIL_API hil_status hil_merge(const hil_merge_options *options, const hil_observer *observer,
                             hil_merge_result *result);

/* Keeps the matrices of a model's blocks in fewer bits: the result is a model folder of its own, as
   bitsandbytes (nf4, int8) or transformers (fp8) writes it. */
typedef struct hil_quantize_options {
    size_t size; /* set by hil_quantize_defaults */
    const char *model;
    const char *out;
    const char *base_dtype; /* "nf4", "int8" or "fp8" */
    int threads;            /* 0: all */
    bool overwrite;
    const volatile int *stop;
} hil_quantize_options;
typedef struct hil_quantize_result {
    int64_t matrices; /* that were quantized */
    const char *dtype;
    uint64_t bytes; /* of weights written */
} hil_quantize_result;
HIL_API void hil_quantize_defaults_sized(hil_quantize_options *options, size_t size);
#define hil_quantize_defaults(options) hil_quantize_defaults_sized(options, sizeof *(options))
/* Reads and writes piece by piece: needs memory for some rows and for one matrix's scales. */
HIL_API hil_status hil_quantize(const hil_quantize_options *options, const hil_observer *observer,
                                hil_quantize_result *result);

/* Shows runs that train or have trained, from run.json and metrics.jsonl of their folders. */
typedef struct hil_report_options {
    size_t size;             /* set by hil_report_defaults */
    const char *const *runs; /* output folders of hil_train: one, or several to compare */
    size_t run_count;
    const char *out; /* HTML file; NULL: report.html, in the folder of a single run */
} hil_report_options;
HIL_API void hil_report_defaults_sized(hil_report_options *options, size_t size);
#define hil_report_defaults(options) hil_report_defaults_sized(options, sizeof *(options))
/* Writes one HTML file that needs no network; its path goes to `path`, which has room for `room`
   bytes. */
HIL_API hil_status hil_report(const hil_report_options *options, char *path, size_t room);
/* Writes the metrics of the run in `folder` as comma-separated values, a row for each step. */
HIL_API hil_status hil_report_csv(const char *folder, FILE *out);

typedef struct hil_tokenize_options {
    size_t size;          /* set by hil_tokenize_defaults */
    const char *model;    /* a model folder with a tokenizer.json, or that file */
    bool special;         /* add the post-processor's tokens; decoding: keep special tokens */
    bool decode;          /* ids to text */
    const char *file;     /* read instead of `in`; may be compressed like data files (.gz, .zst) */
    const char *messages; /* a JSON file with a conversation, instead of text; NULL: none */
    bool render;          /* output the text that the chat template makes of it, not its ids */
    bool generation_prompt; /* append the template's start of the model's next answer */
    bool show_mask;         /* of `messages`, which may be any record of training data: output one
                               line per token, with its text and whether training learns it */
    const char *format, *train_on; /* of show_mask, as in training */
} hil_tokenize_options;
HIL_API void hil_tokenize_defaults_sized(hil_tokenize_options *options, size_t size);
#define hil_tokenize_defaults(options) hil_tokenize_defaults_sized(options, sizeof *(options))
/* Result of hil_tokens_encode (ids only) or hil_tokens_decode (text only). Owns its arrays. */
typedef struct hil_tokens {
    int32_t *id;
    size_t count;
    char *text;   /* NUL-terminated */
    size_t bytes; /* without the NUL */
} hil_tokens;
HIL_API hil_status hil_tokens_encode(const hil_tokenize_options *options, const char *text,
                                     size_t bytes, hil_tokens *out);
HIL_API hil_status hil_tokens_decode(const hil_tokenize_options *options, const int32_t *id,
                                     size_t count, hil_tokens *out);
HIL_API void hil_tokens_free(hil_tokens *tokens);
/* The same for streams: encodes the bytes of `in` to one JSON array of ids on `out`, or decodes
   such an array. Encoding without `special` takes a fixed amount of memory for any length. */
HIL_API hil_status hil_tokenize(const hil_tokenize_options *options, FILE *in, FILE *out);

/* Measures a drive: sequential reads and writes of an unnamed temporary file in the folder `path`,
   for several block sizes and queue depths, and fio on the same file if fio is installed. Speeds
   are in 10^9 bytes per second; those of fio are NaN without it. */
typedef struct hil_bench_io_options {
    size_t size; /* set by hil_bench_io_defaults */
    const char *path;
    uint64_t file_size;
    hil_io_kind engine;
} hil_bench_io_options;
typedef struct hil_bench_io_speed {
    double read, write;
} hil_bench_io_speed;
enum { HIL_BENCH_IO_CELLS = 12 };
typedef struct hil_bench_io_cell {
    size_t block;
    int depth;
    hil_bench_io_speed own, fio;
} hil_bench_io_cell;
typedef struct hil_bench_io_result {
    const char *engine;
    bool direct, registered;
    hil_bench_io_cell cell[HIL_BENCH_IO_CELLS];
    hil_bench_io_speed best; /* the highest of `own` */
    /* own / fio in fio's best cell: medians of runs that alternate between the two. */
    hil_bench_io_speed ratio;
} hil_bench_io_result;
HIL_API void hil_bench_io_defaults_sized(hil_bench_io_options *options, size_t size);
#define hil_bench_io_defaults(options) hil_bench_io_defaults_sized(options, sizeof *(options))
HIL_API hil_status hil_bench_io(const hil_bench_io_options *options, const hil_observer *observer,
                                hil_bench_io_result *result);

#ifdef __cplusplus
}
#endif
#endif
