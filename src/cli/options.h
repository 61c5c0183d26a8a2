/* options.h - one table of options per command, used by parsing, --config files and --help. */
#ifndef HIL_CLI_OPTIONS_H
#define HIL_CLI_OPTIONS_H

#include "base/json.h"
#include "base/text.h"
#include "hilbert/run.h"

#include <stdio.h>

typedef enum hil_option_kind {
    HIL_OPTION_TEXT,   /* const char * */
    HIL_OPTION_LIST,   /* const char *const *, the count is the field after it */
    HIL_OPTION_WHOLE,  /* int or int64_t */
    HIL_OPTION_SEED,   /* uint64_t */
    HIL_OPTION_SIZE,   /* uint64_t, a number of bytes with a unit or not */
    HIL_OPTION_MEMORY, /* uint64_t, a size or a percentage of the memory that is free */
    HIL_OPTION_DEVICE, /* uint64_t, a size or a HIL_PERCENT of the device's free memory */
    HIL_OPTION_DISK,   /* const hil_disk_budget *, the count is the field after it */
    HIL_OPTION_REAL,   /* double */
    HIL_OPTION_WORD,   /* const char *, one of the words in `value` */
    HIL_OPTION_CHOICE, /* enum or bool: the index of the word in `value` */
    HIL_OPTION_ON,     /* bool that the bare flag makes true */
    HIL_OPTION_OFF,    /* bool that the bare flag makes false */
    HIL_OPTION_CONFIG, /* const char *, a JSON file with more options */
} hil_option_kind;

/* The numbers that an option accepts, [low, high], and the same in words for errors. */
typedef struct hil_range {
    double low, high;
    const char *words;
} hil_range;

typedef struct hil_option {
    const char *name;
    hil_option_kind kind;
    size_t offset, width; /* of the field in the command's struct */
    const char *value;    /* shown after the name in help; "a|b|c" lists the allowed words */
    const char *help;
    const char *group;   /* heading in help; NULL: as the row before */
    const char *initial; /* the default in words; NULL: the value of the field */
    const hil_range *range;
    const char *rival; /* an option that excludes this one */
    bool required;
    bool empty;    /* a text may be empty */
    bool per_rank; /* values may differ between ranks: they change no result and no communication,
                      or are compared elsewhere; all other options must be equal */
} hil_option;

/* One row: HIL_ROW("lr", REAL, train_values, run.lr, "X", "help", .range = ...). */
#define HIL_ROW(name_, kind_, type_, field_, value_, help_, ...)                                   \
    {                                                                                              \
        .name = name_, .kind = HIL_OPTION_##kind_, .offset = offsetof(type_, field_),              \
        .width = sizeof(((type_ *)0)->field_), .value = value_, .help = help_, __VA_ARGS__         \
    }

#define HIL_OPERANDS 3

typedef struct hil_command {
    const char *name;
    const char *summary;
    const char *usage;   /* what follows the name */
    const char *example; /* whole lines */
    const hil_option *option;
    size_t count;
    struct hil_operand {
        const char *name;              /* for errors; NULL: no more operands */
        size_t offset;                 /* of the field in the command's struct */
        bool many;                     /* the last: one or more, a field as of HIL_OPTION_LIST */
    } operand[HIL_OPERANDS];           /* arguments without a name, in order; all are required */
    bool ranks;                        /* several processes may share the work */
    int (*run)(int argc, char **argv); /* arguments after the name; returns the exit code */
} hil_command;

#define HIL_OPTIONS_MAX 96

/* A command line being parsed. Owns the memory that the values borrow. */
typedef struct hil_parsed {
    const hil_command *command;
    void *values; /* the command's struct; holds the defaults first */
    bool help;    /* --help was given; the other arguments were not parsed */
    bool seen[HIL_OPTIONS_MAX];
    json_t *config;
    struct hil_list {
        char **item;
        size_t count, capacity;
    } list[HIL_OPTIONS_MAX + 1]; /* the last is of operands */
    hil_disk_budget disk[HIL_DISKS_MAX];
    size_t disks;
    hil_text understood; /* sizes with units of 1000 in units of 1024; no data: none given */
} hil_parsed;

/* Parses the arguments into `values`. Options on the command line override those of a --config
   file. Call hil_parsed_free also after a failure. */
hil_status hil_options_parse(hil_parsed *parsed, const hil_command *command, int argc, char **argv,
                             void *values);
void hil_parsed_free(hil_parsed *parsed);

/* Reads the JSON file `path` and sets every option in it that the command line did not set. */
hil_status hil_options_read_config(hil_parsed *parsed, const char *path);

/* For the command line and --config files. `label` names the option in errors. */
hil_status hil_option_find(const hil_command *command, const char *name, const char *where,
                           const hil_option **out);
hil_status hil_option_set_text(hil_parsed *parsed, const hil_option *option, const char *label,
                               const char *text);
hil_status hil_option_set_whole(hil_parsed *parsed, const hil_option *option, const char *label,
                                int64_t number);
hil_status hil_option_set_real(hil_parsed *parsed, const hil_option *option, const char *label,
                               double number);
void hil_option_set_flag(hil_parsed *parsed, const hil_option *option);
hil_status hil_option_add_item(hil_parsed *parsed, const hil_option *option, const char *item,
                               size_t size);

/* Parses a number of bytes with an optional unit and fraction: K, KiB, M, ... are powers of 1024,
   KB, MB, ... powers of 1000; case is ignored. If `percent` is not NULL, also a percentage from 1
   to 100, which sets *percent. */
hil_status hil_size_parse(const char *label, const char *text, uint64_t *out, bool *percent);
/* Whether a size has a unit of 1000, such as GB. */
bool hil_size_is_decimal(const char *text);
/* Parses PATH, PATH:SIZE or PATH:N% (of the free space there). A colon belongs to the path if no
   digit follows it, or if a folder of the whole name exists and PATH does not. `path` has
   strlen(text) + 1 bytes. */
hil_status hil_option_parse_disk(const char *label, const char *text, char *path, uint64_t *bytes);

#define HIL_ADAPTER_ROW(type, field)                                                               \
    HIL_ROW("adapter", TEXT, type, field, "DIR", "use the adapter in this PEFT folder",            \
            .initial = "none", .per_rank = true)

#define HIL_TOKENIZER_ROW(type, field)                                                             \
    HIL_ROW("tokenizer", WORD, type, field, "bytes", "the bytes of the text are its tokens",       \
            .initial = "the model's tokenizer.json")

/* The options of generate and chat that choose the next token. */
#define HIL_SAMPLING_ROWS                                                                          \
    HIL_ROW("temperature", REAL, hil_generate_options, temperature, "X",                           \
            "0 always takes the likeliest token", .range = &hil_range_amount),                     \
        HIL_ROW("top-k", WHOLE, hil_generate_options, top_k, "N",                                  \
                "choose among the N likeliest tokens, 0 for all", .range = &hil_range_index),      \
        HIL_ROW("top-p", REAL, hil_generate_options, top_p, "X",                                   \
                "choose among the likeliest that make up this probability",                        \
                .range = &hil_range_up_to_one),                                                    \
        HIL_ROW("seed", SEED, hil_generate_options, seed, "N", "seed of the choices")

/* The options for records of .jsonl files; `prefix` is the path to the fields in `type`. */
#define HIL_RECORD_ROWS(type, prefix)                                                              \
    HIL_ROW("format", WORD, type, prefix format,                                                   \
            "auto|text|prompt|messages|sharegpt|alpaca|tokens|preference",                         \
            "what .jsonl files hold"),                                                             \
        HIL_ROW("train-on", WORD, type, prefix train_on, "assistant|last|all",                     \
                "what is learned of a conversation")

/* The options for what is minimized; `prefix` is the path to the fields in `type`. */
#define HIL_LOSS_ROWS(type, prefix)                                                                \
    HIL_ROW("loss", WORD, type, prefix loss,                                                       \
            "cross-entropy|dpo|robust|ipo|hinge|apo_zero|apo_down|kto|cpo|simpo|orpo",             \
            "what is minimized; all others compare answers"),                                      \
        HIL_ROW("beta", REAL, type, prefix beta, "X", "how strongly answers are compared",         \
                .initial = "0.1, with simpo 2", .range = &hil_range_positive),                     \
        HIL_ROW("label-smoothing", REAL, type, prefix preference.label_smoothing, "X",             \
                "share of pairs that are the wrong way round", .range = &hil_range_below_one),     \
        HIL_ROW("nll-weight", REAL, type, prefix preference.nll_weight, "X",                       \
                "weight of the chosen answers' cross-entropy", .initial = "0, with cpo 1",         \
                .range = &hil_range_amount),                                                       \
        HIL_ROW("margin", REAL, type, prefix preference.margin, "X",                               \
                "of simpo: by how much the chosen answer shall be better", .initial = "0.5",       \
                .range = &hil_range_amount),                                                       \
        HIL_ROW("desirable-weight", REAL, type, prefix preference.desirable_weight, "X",           \
                "of kto: weight of good answers", .initial = "1", .range = &hil_range_amount),     \
        HIL_ROW("undesirable-weight", REAL, type, prefix preference.undesirable_weight, "X",       \
                "of kto: weight of bad answers", .initial = "1", .range = &hil_range_amount)

#define HIL_BASE_DTYPE_ROW(type, field)                                                            \
    HIL_ROW("base-dtype", WORD, type, field, "nf4|int8|fp8|bf16",                                  \
            "keep the blocks' matrices in fewer bits", .initial = "--dtype")

/* The options for device and memory limits of a command; `type` is its struct, `prefix` the path to
   the fields in it. */
#define HIL_MEMORY_ROWS(type, prefix, ...)                                                         \
    HIL_ROW("device", TEXT, type, prefix device.name, "auto|cpu|cuda|cuda:N",                      \
            "what computes; auto: a GPU where there is one", .per_rank = true, __VA_ARGS__),       \
        HIL_ROW("device-memory", DEVICE, type, prefix memory.device, "SIZE",                       \
                "to compute in: 1.5G, 24GB, 50%", .initial = "what is free, less a margin",        \
                .range = &hil_range_budget, .per_rank = true),                                     \
        HIL_ROW("host-memory", MEMORY, type, prefix memory.host, "SIZE",                           \
                "for the rest: 1.5G, 24GB, 50%", .initial = "what is free, less a margin",         \
                .range = &hil_range_budget, .per_rank = true),                                     \
        HIL_ROW("disk", DISK, type, prefix memory.disks, "PATH[:SIZE]",                            \
                "for what does not fit into memory; may be repeated"),                             \
        HIL_ROW("io", CHOICE, type, prefix memory.io, "auto|uring|threads", "the I/O engine",      \
                .per_rank = true)

/* Prints the value of an option; of --disk only the number of folders. */
void hil_option_print(FILE *out, const hil_option *option, const void *values);

/* Lists what must be equal on all ranks: version, command, and every option that is not
   `per_rank`. The facts borrow from *text, which the caller frees. */
#define HIL_FACTS_MAX (2 + HIL_OPTIONS_MAX)
hil_status hil_options_facts(const hil_command *command, const void *values,
                             hil_fact fact[HIL_FACTS_MAX], size_t *count, char **text);

/* Prints the summary of the command and every option; `values` holds the defaults. */
void hil_options_help(const hil_command *command, const void *values, FILE *out);

#endif
