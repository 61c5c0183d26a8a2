/* options.h - one table of options per command: parsing, --config files and --help read it. */
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
    HIL_OPTION_DEVICE, /* uint64_t, a size or a HIL_PERCENT of what is free on the device */
    HIL_OPTION_DISK,   /* const hil_disk_budget *, the count is the field after it */
    HIL_OPTION_REAL,   /* double */
    HIL_OPTION_WORD,   /* const char *, one of the words in `value` */
    HIL_OPTION_CHOICE, /* enum or bool: the index of the word in `value` */
    HIL_OPTION_ON,     /* bool that the bare flag makes true */
    HIL_OPTION_OFF,    /* bool that the bare flag makes false */
    HIL_OPTION_CONFIG, /* const char *, a JSON file with more options */
} hil_option_kind;

/* The numbers an option takes, both ends included, and how to say so. */
typedef struct hil_range {
    double low, high;
    const char *words;
} hil_range;

typedef struct hil_option {
    const char *name;
    hil_option_kind kind;
    size_t offset, width; /* of the field in the command's struct */
    const char *value;    /* what follows the name in help; "a|b|c" lists the words allowed */
    const char *help;
    const char *group;   /* heading in help; NULL: as the row before */
    const char *initial; /* the default in words; NULL: the value of the field */
    const hil_range *range;
    const char *rival; /* an option that excludes this one */
    bool required;
    bool empty;    /* a text may be empty */
    bool per_rank; /* ranks may have different values: it decides neither numbers nor what they do
                      together, or that is compared by other means; all others must be the same */
} hil_option;

/* One row: HIL_ROW("lr", REAL, train_values, run.lr, "X", "help", .range = ...). */
#define HIL_ROW(name_, kind_, type_, field_, value_, help_, ...)                                   \
    {                                                                                              \
        .name = name_, .kind = HIL_OPTION_##kind_, .offset = offsetof(type_, field_),              \
        .width = sizeof(((type_ *)0)->field_), .value = value_, .help = help_, __VA_ARGS__         \
    }

#define HIL_OPERANDS 2

typedef struct hil_command {
    const char *name;
    const char *summary;
    const char *usage;   /* what follows the name */
    const char *example; /* whole lines */
    const hil_option *option;
    size_t count;
    struct hil_operand {
        const char *name;    /* what it is; NULL: there is none */
        size_t offset;       /* of the field in the command's struct */
    } operand[HIL_OPERANDS]; /* arguments without a name, in their order; all are required */
    bool ranks;              /* several processes share the work */
    int (*run)(int argc, char **argv); /* arguments after the name; gives the exit code */
} hil_command;

#define HIL_OPTIONS_MAX 64

/* A command line being parsed, and afterwards the memory that its values borrow from. */
typedef struct hil_parsed {
    const hil_command *command;
    void *values; /* the command's struct; holds the defaults first */
    bool help;    /* --help is there: nothing else was looked at */
    bool seen[HIL_OPTIONS_MAX];
    json_t *config;
    struct hil_list {
        char **item;
        size_t count, capacity;
    } list[HIL_OPTIONS_MAX];
    hil_disk_budget disk[HIL_DISKS_MAX];
    size_t disks;
    hil_text understood; /* what sizes with units of 1000 mean; no data: there are none */
} hil_parsed;

/* Parses the arguments into `values`. Options on the command line win over those of a --config
   file. Call hil_parsed_free after a failure as well. */
hil_status hil_options_parse(hil_parsed *parsed, const hil_command *command, int argc, char **argv,
                             void *values);
void hil_parsed_free(hil_parsed *parsed);

/* Reads the JSON file `path` and assigns every option that the command line did not give. */
hil_status hil_options_read_config(hil_parsed *parsed, const char *path);

/* What both sources share. `label` names the option in errors. */
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

/* A number of bytes, with a unit or not: K, KiB, M, ... are powers of 1024, KB, MB, ... powers of
   1000, in any case and with a fraction or not; or, where `percent` is not NULL and becomes true, a
   percentage from 1 to 100. */
hil_status hil_size_parse(const char *label, const char *text, uint64_t *out, bool *percent);
/* Whether a size has a unit of 1000, such as GB. */
bool hil_size_is_decimal(const char *text);
/* PATH, PATH:SIZE or PATH:N% (of what is free there). A colon that no digit follows is part of the
   path, and so is one in the name of a folder that is there. `path` has room for strlen(text) + 1
   bytes. */
hil_status hil_disk_parse(const char *label, const char *text, char *path, uint64_t *bytes);

#define HIL_TOKENIZER_ROW(type, field)                                                             \
    HIL_ROW("tokenizer", WORD, type, field, "bytes", "the bytes of the text are its tokens",       \
            .initial = "the model's tokenizer.json")

/* The options that say how much memory a command may use; `type` is its struct, `prefix` what
   leads to the fields there. */
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

/* The value that an option has in `values`; of --disk only how many folders there are. */
void hil_option_print(FILE *out, const hil_option *option, const void *values);

/* What must be the same on all ranks: the version, the command, and every option that is not
   `per_rank`. *text, which the caller frees, has names and values. */
#define HIL_FACTS_MAX (2 + HIL_OPTIONS_MAX)
hil_status hil_options_facts(const hil_command *command, const void *values,
                             hil_fact fact[HIL_FACTS_MAX], size_t *count, char **text);

/* Prints what the command does and every option; `values` holds the defaults. */
void hil_options_help(const hil_command *command, const void *values, FILE *out);

#endif
