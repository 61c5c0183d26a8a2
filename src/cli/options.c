/* options.c - parses arguments into a command's struct. */
#include "cli/options.h"

#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void *field(const hil_parsed *parsed, const hil_option *option)
{
    return (char *)parsed->values + option->offset;
}

static size_t index_of(const hil_parsed *parsed, const hil_option *option)
{
    return (size_t)(option - parsed->command->option);
}

static bool same_name(const char *given, const char *name)
{
    for (; *given && *name; ++given, ++name)
        if ((*given == '_' ? '-' : *given) != *name) return false;
    return *given == *name;
}

/* Names of the same options in other trainers. */
static const struct {
    const char *theirs, *ours;
} known[] = {
    {"learning-rate", "lr"},
    {"batch-size", "batch"},
    {"per-device-train-batch-size", "micro-batch"},
    {"max-steps", "steps"},
    {"num-train-epochs", "epochs"},
    {"output-dir", "out"},
    {"max-seq-length", "seq"},
    {"max-length", "seq"},
    {"model-name-or-path", "model"},
    {"train-file", "data"},
    {"gradient-checkpointing", "recompute"},
    {"micro-batch-size", "micro-batch"},
    {"sequence-len", "seq"},
    {"dataset", "data"},
    {"num-epochs", "epochs"},
    {"lora-r", "rank"},
    {"lora-rank", "rank"},
    {"lora-alpha", "alpha"},
    {"lora-dropout", "adapter-dropout"},
    {"target-modules", "targets"},
    {"lora-target-modules", "targets"},
    {"load-in-4bit", "base-dtype"},
    {"load-in-8bit", "base-dtype"},
    {"optim", "optimizer"},
    {"lr-scheduler-type", "schedule"},
    {"lr-scheduler", "schedule"},
    {"warmup-steps", "warmup"},
    {"max-grad-norm", "clip"},
    {"save-steps", "save-every"},
    {"save-total-limit", "keep"},
    {"eval-steps", "eval-every"},
    {"val-set-size", "eval-fraction"},
    {"early-stopping-patience", "patience"},
    {"load-best-model-at-end", "keep-best"},
    {"resume-from-checkpoint", "resume"},
    {"logging-dir", "tensorboard"},
    {"max-new-tokens", "max-tokens"},
};

/* The option that a wrong `name` resembles, or NULL. */
static const char *suggest(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        for (size_t j = 0; j < count && same_name(name, known[i].theirs); ++j)
            if (strcmp(names[j], known[i].ours) == 0) return names[j];
    return hil_text_nearest(name, names, count);
}

hil_status hil_option_find(const hil_command *command, const char *name, const char *where,
                           const hil_option **out)
{
    const char *names[HIL_OPTIONS_MAX];
    assert(command->count <= HIL_OPTIONS_MAX);
    for (size_t i = 0; i < command->count; ++i) {
        names[i] = command->option[i].name;
        if (!same_name(name, names[i])) continue;
        *out = &command->option[i];
        return HIL_OK;
    }
    if (same_name(name, "gradient-accumulation-steps") || same_name(name, "grad-accum"))
        return hil_fail(
            HIL_ERR_USAGE,
            "%sunknown option --%s; a step has --batch sequences, of which --micro-batch "
            "are computed at once: give their numbers, not the quotient",
            where, name);
    const char *near = suggest(name, names, command->count);
    const char *open = *where ? "\"" : "--", *close = *where ? "\"" : "";
    if (near)
        return hil_fail(HIL_ERR_USAGE, "%sunknown option %s%s%s; did you mean %s%s%s?", where, open,
                        name, close, open, near, close);
    return hil_fail(HIL_ERR_USAGE, "%sunknown option %s%s%s; see hilbert %s --help", where, open,
                    name, close, command->name);
}

static hil_status check_range(const hil_option *option, const char *label, double number)
{
    const hil_range *range = option->range;
    if (!range || (number >= range->low && number <= range->high)) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "%s must be %s, not %.17g", label, range->words, number);
}

hil_status hil_option_set_whole(hil_parsed *parsed, const hil_option *option, const char *label,
                                int64_t number)
{
    HIL_TRY(check_range(option, label, (double)number));
    if (option->width == sizeof(int)) {
        if (number < INT32_MIN || number > INT32_MAX)
            return hil_fail(HIL_ERR_USAGE, "%s: %lld is too large", label, (long long)number);
        *(int *)field(parsed, option) = (int)number;
    } else {
        *(int64_t *)field(parsed, option) = number;
    }
    return HIL_OK;
}

hil_status hil_option_set_real(hil_parsed *parsed, const hil_option *option, const char *label,
                               double number)
{
    HIL_TRY(check_range(option, label, number));
    *(double *)field(parsed, option) = number;
    return HIL_OK;
}

void hil_option_set_flag(hil_parsed *parsed, const hil_option *option)
{
    *(bool *)field(parsed, option) = option->kind == HIL_OPTION_ON;
}

/* Adds to a list and to the field at `place` that shows it. */
static hil_status add_item(struct hil_list *list, char *place, const char *item, size_t size)
{
    char *copy;
    HIL_TRY(HIL_GROW(&list->item, &list->capacity, list->count + 1));
    HIL_TRY(HIL_ALLOC(size + 1, &copy));
    memcpy(copy, item, size);
    list->item[list->count++] = copy;
    memcpy(place, &list->item, sizeof list->item);
    memcpy(place + sizeof list->item, &list->count, sizeof list->count);
    return HIL_OK;
}

hil_status hil_option_add_item(hil_parsed *parsed, const hil_option *option, const char *item,
                               size_t size)
{
    return add_item(&parsed->list[index_of(parsed, option)], field(parsed, option), item, size);
}

static hil_status set_list(hil_parsed *parsed, const hil_option *option, const char *label,
                           const char *text)
{
    for (;;) {
        size_t size = strcspn(text, ",");
        if (size == 0) return hil_fail(HIL_ERR_USAGE, "%s: a name in the list is empty", label);
        HIL_TRY(hil_option_add_item(parsed, option, text, size));
        if (!text[size]) return HIL_OK;
        text += size + 1;
    }
}

/* The index of `text` in "a|b|c", or -1. */
static int find_word(const char *words, const char *text)
{
    size_t size = strlen(text);
    for (int i = 0;; ++i) {
        size_t word = strcspn(words, "|");
        if (word == size && memcmp(words, text, size) == 0) return i;
        if (!words[word]) return -1;
        words += word + 1;
    }
}

static hil_status parse_unsigned(const char *label, const char *text, uint64_t *out,
                                 const char **rest)
{
    size_t digits = strspn(text, "0123456789");
    errno = 0;
    *out = strtoull(text, NULL, 10);
    if (digits == 0 || errno == EINVAL)
        return hil_fail(HIL_ERR_USAGE, "%s: '%s' is not a whole number of 0 or more", label, text);
    if (errno == ERANGE) return hil_fail(HIL_ERR_USAGE, "%s: %s is too large", label, text);
    *rest = text + digits;
    return HIL_OK;
}

/* Notes what a size such as "24GB", which is less than "24G", means in units of 1024. */
static hil_status note_size(hil_parsed *parsed, const char *label, const char *text, uint64_t bytes)
{
    char amount[32];
    const char *size = strrchr(text, ':');
    if (!bytes || !hil_size_is_decimal(size ? size + 1 : text)) return HIL_OK;
    return hil_text_print(&parsed->understood, "%s%s %s is %s", parsed->understood.size ? ", " : "",
                          label, text, hil_text_bytes(amount, bytes));
}

static hil_status set_unsigned(hil_parsed *parsed, const hil_option *option, const char *label,
                               const char *text)
{
    uint64_t number;
    bool percent = false;
    const char *rest = text;
    if (option->kind == HIL_OPTION_SEED) {
        HIL_TRY(parse_unsigned(label, text, &number, &rest));
        if (*rest) return hil_fail(HIL_ERR_USAGE, "%s: '%s' is not a whole number", label, text);
    } else {
        bool *may = option->kind == HIL_OPTION_SIZE ? NULL : &percent;
        HIL_TRY(hil_size_parse(label, text, &number, may));
        HIL_TRY(note_size(parsed, label, text, number));
    }
    HIL_TRY(check_range(option, label, (double)number));
    if (percent && option->kind == HIL_OPTION_DEVICE) {
        number = HIL_PERCENT(number);
    } else if (percent) {
        uint64_t available = hil_memory_available();
        if (available == UINT64_MAX)
            return hil_fail(HIL_ERR_USAGE, "%s: the system does not say how much memory is free",
                            label);
        number = available / 100 * number;
    }
    *(uint64_t *)field(parsed, option) = number;
    return HIL_OK;
}

static hil_status set_disk(hil_parsed *parsed, const hil_option *option, const char *label,
                           const char *text)
{
    struct hil_list *list = &parsed->list[index_of(parsed, option)];
    uint64_t bytes;
    if (parsed->disks == HIL_DISKS_MAX)
        return hil_fail(HIL_ERR_USAGE, "%s: at most %d folders", label, HIL_DISKS_MAX);
    HIL_TRY(HIL_GROW(&list->item, &list->capacity, list->count + 1));
    char **path = &list->item[list->count];
    HIL_TRY(HIL_ALLOC(strlen(text) + 1, path));
    ++list->count;
    HIL_TRY(hil_option_parse_disk(label, text, *path, &bytes));
    HIL_TRY(note_size(parsed, label, text, bytes));
    parsed->disk[parsed->disks++] = (hil_disk_budget){*path, bytes};
    const hil_disk_budget *disk = parsed->disk;
    char *place = field(parsed, option);
    memcpy(place, &disk, sizeof disk);
    memcpy(place + sizeof disk, &parsed->disks, sizeof parsed->disks);
    return HIL_OK;
}

static hil_status set_number(hil_parsed *parsed, const hil_option *option, const char *label,
                             const char *text)
{
    bool whole = option->kind == HIL_OPTION_WHOLE;
    size_t size = strlen(text);
    char *end = NULL;
    errno = 0;
    if (whole) {
        long long number = strtoll(text, &end, 10);
        if (size && strspn(text, "+-0123456789") == size && !*end) {
            if (errno == ERANGE) return hil_fail(HIL_ERR_USAGE, "%s: %s is too large", label, text);
            return hil_option_set_whole(parsed, option, label, number);
        }
        return hil_fail(HIL_ERR_USAGE, "%s: '%s' is not a whole number", label, text);
    }
    double number = strtod(text, &end);
    if (!size || strspn(text, "+-.eE0123456789") != size || *end)
        return hil_fail(HIL_ERR_USAGE, "%s: '%s' is not a number", label, text);
    if (errno == ERANGE && (number > 1 || number < -1))
        return hil_fail(HIL_ERR_USAGE, "%s: %s is too large", label, text);
    return hil_option_set_real(parsed, option, label, number);
}

hil_status hil_option_set_text(hil_parsed *parsed, const hil_option *option, const char *label,
                               const char *text)
{
    int word;
    switch (option->kind) {
    case HIL_OPTION_WHOLE:
    case HIL_OPTION_REAL:
        return set_number(parsed, option, label, text);
    case HIL_OPTION_SEED:
    case HIL_OPTION_SIZE:
    case HIL_OPTION_MEMORY:
    case HIL_OPTION_DEVICE:
        return set_unsigned(parsed, option, label, text);
    case HIL_OPTION_LIST:
        return set_list(parsed, option, label, text);
    case HIL_OPTION_DISK:
        return set_disk(parsed, option, label, text);
    case HIL_OPTION_WORD:
    case HIL_OPTION_CHOICE:
        word = find_word(option->value, text);
        if (word < 0)
            return hil_fail(HIL_ERR_USAGE, "%s must be %s%s, not '%s'", label,
                            strchr(option->value, '|') ? "one of " : "", option->value, text);
        if (option->kind == HIL_OPTION_WORD)
            *(const char **)field(parsed, option) = text;
        else if (option->width == sizeof(bool))
            *(bool *)field(parsed, option) = word != 0;
        else
            *(int *)field(parsed, option) = word;
        return HIL_OK;
    default:
        if (!*text && !option->empty) return hil_fail(HIL_ERR_USAGE, "%s must not be empty", label);
        *(const char **)field(parsed, option) = text;
        return HIL_OK;
    }
}

static bool is_option(const hil_command *command, const char *text)
{
    const hil_option *option;
    return strncmp(text, "--", 2) == 0 && hil_option_find(command, text + 2, "", &option) == HIL_OK;
}

/* Parses the option argv[0] and its value; *used is the number of arguments consumed. */
static hil_status parse_option(hil_parsed *parsed, int argc, char **argv, int *used)
{
    const hil_option *option;
    char label[64];
    const char *equals = strchr(argv[0], '=');
    size_t size = equals ? (size_t)(equals - argv[0]) : strlen(argv[0]);
    if (size >= sizeof label)
        return hil_fail(HIL_ERR_USAGE, "unknown option %.60s...; see hilbert %s --help", argv[0],
                        parsed->command->name);
    memcpy(label, argv[0], size);
    label[size] = 0;
    HIL_TRY(hil_option_find(parsed->command, label + 2, "", &option));
    parsed->seen[index_of(parsed, option)] = true;
    *used = 1;
    if (option->kind == HIL_OPTION_ON || option->kind == HIL_OPTION_OFF) {
        if (equals) return hil_fail(HIL_ERR_USAGE, "%s takes no value", label);
        hil_option_set_flag(parsed, option);
        return HIL_OK;
    }
    if (equals) return hil_option_set_text(parsed, option, label, equals + 1);
    if (argc < 2 || is_option(parsed->command, argv[1]))
        return hil_fail(HIL_ERR_USAGE, "%s needs a value: %s", label, option->value);
    *used = 2;
    return hil_option_set_text(parsed, option, label, argv[1]);
}

static const char **operand_of(const hil_parsed *parsed, size_t i)
{
    return (const char **)((char *)parsed->values + parsed->command->operand[i].offset);
}

static hil_status parse_operand(hil_parsed *parsed, const char *text)
{
    const hil_command *command = parsed->command;
    const char *last = NULL;
    for (size_t i = 0; i < HIL_OPERANDS && command->operand[i].name; ++i) {
        const char **place = operand_of(parsed, i);
        bool many = command->operand[i].many;
        last = command->operand[i].name;
        if (*place && !many) continue;
        if (!*text) return hil_fail(HIL_ERR_USAGE, "the %s must not be empty", last);
        if (many)
            return add_item(&parsed->list[HIL_OPTIONS_MAX], (char *)place, text, strlen(text));
        *place = text;
        return HIL_OK;
    }
    if (last) return hil_fail(HIL_ERR_USAGE, "one %s at a time: '%s' is one too many", last, text);
    return hil_fail(HIL_ERR_USAGE, "unexpected argument '%s'; see hilbert %s --help", text,
                    command->name);
}

static hil_status check_rivals(const hil_parsed *parsed)
{
    const hil_command *command = parsed->command;
    for (size_t i = 0; i < command->count; ++i) {
        const hil_option *rival;
        if (!parsed->seen[i] || !command->option[i].rival) continue;
        HIL_TRY(hil_option_find(command, command->option[i].rival, "", &rival));
        if (parsed->seen[index_of(parsed, rival)])
            return hil_fail(HIL_ERR_USAGE, "give --%s or --%s, not both", command->option[i].name,
                            rival->name);
    }
    return HIL_OK;
}

/* Fails with one line that names all missing options and operands. */
static hil_status check_required(const hil_parsed *parsed)
{
    const hil_command *command = parsed->command;
    const char *missing[HIL_OPTIONS_MAX];
    char line[256] = "";
    size_t count = 0, used = 0;
    for (size_t i = 0; i < command->count; ++i)
        if (command->option[i].required && !parsed->seen[i])
            missing[count++] = command->option[i].name;
    for (size_t i = 0; i < count && used < sizeof line; ++i)
        used += (size_t)snprintf(line + used, sizeof line - used, "%s--%s",
                                 i == 0          ? ""
                                 : i + 1 < count ? ", "
                                                 : " and ",
                                 missing[i]);
    for (size_t i = 0; i < HIL_OPERANDS && command->operand[i].name && used < sizeof line; ++i)
        if (!*operand_of(parsed, i))
            used += (size_t)snprintf(line + used, sizeof line - used, "%sa %s", used ? " and " : "",
                                     command->operand[i].name);
    if (!*line) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "%s needs %s; see hilbert %s --help", command->name, line,
                    command->name);
}

hil_status hil_options_parse(hil_parsed *parsed, const hil_command *command, int argc, char **argv,
                             void *values)
{
    *parsed = (hil_parsed){.command = command, .values = values};
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; ++i)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) parsed->help = true;
    if (parsed->help) return HIL_OK;
    bool operands_only = false;
    for (int i = 0, used; i < argc; i += used) {
        used = 1;
        if (!operands_only && strcmp(argv[i], "--") == 0) {
            operands_only = true;
        } else if (!operands_only && strncmp(argv[i], "--", 2) == 0) {
            HIL_TRY(parse_option(parsed, argc - i, argv + i, &used));
        } else if (!operands_only && argv[i][0] == '-' && argv[i][1]) {
            return hil_fail(HIL_ERR_USAGE, "unknown option %s; see hilbert %s --help", argv[i],
                            command->name);
        } else {
            HIL_TRY(parse_operand(parsed, argv[i]));
        }
    }
    HIL_TRY(check_rivals(parsed));
    for (size_t i = 0; i < command->count; ++i)
        if (command->option[i].kind == HIL_OPTION_CONFIG && parsed->seen[i])
            HIL_TRY(hil_options_read_config(parsed,
                                            *(const char **)field(parsed, &command->option[i])));
    HIL_TRY(check_rivals(parsed));
    return check_required(parsed);
}

void hil_parsed_free(hil_parsed *parsed)
{
    json_decref(parsed->config);
    hil_text_free(&parsed->understood);
    for (size_t i = 0; i <= HIL_OPTIONS_MAX; ++i) {
        for (size_t j = 0; j < parsed->list[i].count; ++j) hil_free(parsed->list[i].item[j]);
        hil_free(parsed->list[i].item);
    }
    parsed->config = NULL;
    memset(parsed->list, 0, sizeof parsed->list);
}
