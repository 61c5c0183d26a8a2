/* Ranks with different options: for every option of train and eval, either a different value on one
   rank is refused with the option's name, or the option is listed here as exempt. */
#include "../comm/ranks.h"
#include "cli/command.h"
#include "cli/train_options.h"

#include <stdlib.h>

/* Paths are compared by their content (test_cli_rank_facts.sh); the others change no result. */
static const char *const exempt[] = {
    "model",       "out", "config", "quiet", "threads",   "device",          "device-memory",
    "host-memory", "io",  "trace",  "json",  "deepspeed", "resume-deepspeed"};

static bool is_exempt(const hil_command *command, const char *name)
{
    if (strcmp(name, "adapter") == 0) return command == &hil_command_eval; /* a path there */
    for (size_t i = 0; i < sizeof exempt / sizeof *exempt; ++i)
        if (strcmp(name, exempt[i]) == 0) return true;
    return false;
}

/* A value of an option that is not its default. */
static const char *another(const hil_option *option)
{
    static char word[64];
    const char *last;
    switch (option->kind) {
    case HIL_OPTION_WHOLE:
        return strcmp(option->name, "zero") == 0 ? "2" : "7";
    case HIL_OPTION_SEED:
        return "18446744073709551615";
    case HIL_OPTION_SIZE:
    case HIL_OPTION_MEMORY:
    case HIL_OPTION_DEVICE:
        return "48M";
    case HIL_OPTION_REAL:
        return "0.123456789012345";
    case HIL_OPTION_WORD:
    case HIL_OPTION_CHOICE: /* the last word is not the default, except of a switch that is on */
        last = strrchr(option->value, '|');
        snprintf(word, sizeof word, "%s", last ? last + 1 : option->value);
        if (strcmp(word, "on") == 0) snprintf(word, sizeof word, "off");
        return word;
    case HIL_OPTION_ON:
    case HIL_OPTION_OFF:
        return NULL;
    default:
        return "another";
    }
}

/* The struct of either command; both begin with the library's options. */
typedef union values {
    hil_train_values train;
    hil_eval_options eval;
    char room[4096];
} values;

typedef struct started {
    const hil_command *command;
    const hil_option *flipped; /* on rank 1; NULL: none */
} started;

static void defaults(const hil_command *command, values *v)
{
    memset(v, 0, sizeof *v);
    if (command == &hil_command_train)
        hil_train_defaults(&v->train.run);
    else
        hil_eval_defaults(&v->eval);
}

/* The option that differs when `option` is given: itself, or the one that it is given instead of.
 */
static const char *replaced(const hil_option *option)
{
    return strcmp(option->name, "messages") == 0 ? "data" : option->name;
}

static void parse(const started *s, bool flip, values *v, hil_parsed *parsed)
{
    char name[80], *argv[16];
    static char text[][16] = {"--model", "m", "--data", "d", "--out", "o"};
    int argc = 0;
    for (int i = 0; i < (s->command == &hil_command_train ? 6 : 4); i += 2) {
        if (flip && strcmp(text[i] + 2, replaced(s->flipped)) == 0) continue;
        argv[argc++] = text[i];
        argv[argc++] = text[i + 1];
    }
    if (flip) {
        const char *value = another(s->flipped);
        snprintf(name, sizeof name, "--%s", s->flipped->name);
        argv[argc++] = name;
        if (value) argv[argc++] = (char *)(uintptr_t)value;
    }
    defaults(s->command, v);
    CHECK_OK(hil_options_parse(parsed, s->command, argc, argv, v));
}

static void compare(hil_comm *comm, void *context)
{
    const started *s = context;
    values v;
    hil_parsed parsed;
    hil_fact fact[HIL_FACTS_MAX];
    size_t count;
    char *text, words[80] = "";
    bool flip = s->flipped && hil_comm_rank(comm) == 1;
    if (flip && s->flipped->kind == HIL_OPTION_CONFIG) flip = false; /* would be read */
    parse(s, flip, &v, &parsed);
    CHECK_OK(hil_options_facts(s->command, &v, fact, &count, &text));
    hil_status status = hil_comm_compare(comm, HIL_OK, fact, count, "the same, please");
    if (s->flipped) snprintf(words, sizeof words, "rank 1: --%s ", replaced(s->flipped));
    if (!s->flipped || is_exempt(s->command, s->flipped->name))
        CHECK_OK(status);
    else
        CHECK_FAILS(status, HIL_ERR_USAGE, words);
    if (status != HIL_OK)
        CHECK(strstr(hil_status_message(), " on rank 0: the same, please") != NULL);
    CHECK_OK(hil_comm_compare(comm, HIL_OK, NULL, 0, "")); /* the ranks are still in step */
    free(text);
    hil_parsed_free(&parsed);
}

/* A rank that failed has no facts: all ranks get its message. */
static void compare_failed(hil_comm *comm, void *context)
{
    (void)context;
    const hil_fact fact = {"--seed", "1"};
    hil_status mine = hil_comm_rank(comm) == 2 ? hil_fail(HIL_ERR_USAGE, "unknown option") : HIL_OK;
    CHECK_FAILS(hil_comm_compare(comm, mine, &fact, mine == HIL_OK, ""), HIL_ERR_USAGE,
                "rank 2: unknown option");
    CHECK_OK(hil_comm_compare(comm, HIL_OK, &fact, 1, ""));
}

/* The message names the first fact that differs on the first rank that differs; long values are
   truncated. */
static void compare_values(hil_comm *comm, void *context)
{
    (void)context;
    char value[5000];
    memset(value, 'x', sizeof value - 1);
    value[sizeof value - 1] = 0;
    if (hil_comm_rank(comm) == 2) value[0] = 'y';
    hil_fact fact[3] = {{"a", "1"}, {"b", value}, {"c", hil_comm_rank(comm) ? "2" : "3"}};
    CHECK_FAILS(hil_comm_compare(comm, HIL_OK, fact, 3, "x"), HIL_ERR_USAGE,
                "rank 1: c 2 here, but 3 on rank 0: x");
    CHECK_FAILS(hil_comm_compare(comm, HIL_OK, fact, 2, "advice"), HIL_ERR_USAGE,
                "rank 2: b yxxxx");
    CHECK(strstr(hil_status_message(), ": advice") != NULL);
    size_t count = hil_comm_rank(comm) == 1 ? 1 : 2;
    fact[1].value = "2";
    CHECK_FAILS(hil_comm_compare(comm, HIL_OK, fact, count, "x"), HIL_ERR_USAGE,
                "rank 1: nothing here, but b on rank 0: x");
    CHECK_OK(hil_comm_compare(comm, HIL_OK, fact, 1, ""));
}

int main(void)
{
    static const hil_command *const commands[] = {&hil_command_train, &hil_command_eval};
    for (size_t c = 0; c < 2; ++c) {
        started s = {commands[c], NULL};
        CHECK(s.command->ranks);
        ranks_run(3, compare, &s);
        for (size_t i = 0; i < s.command->count; ++i) {
            s.flipped = &s.command->option[i];
            CHECK_INT(s.flipped->per_rank, is_exempt(s.command, s.flipped->name));
            ranks_run(3, compare, &s);
        }
    }
    ranks_run(4, compare_failed, NULL);
    ranks_run(4, compare_values, NULL);
    CHECK_OK(hil_comm_compare(NULL, HIL_OK, NULL, 0, ""));
    return 0;
}
