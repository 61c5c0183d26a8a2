/* Odd flags and values for every command: it runs, or prints one line and exits with 1 or 2. It
   never crashes, can always be interrupted, and leaves no file when it refuses. */
/* soak: --full */
#include "campaign/campaign.h"

#include <dirent.h>

enum { OPTIONS = 64, COMMANDS = 11 };
enum { RAN, REFUSED, FAILED, INTERRUPTED }; /* outcomes */

typedef struct option {
    char name[40], value[80]; /* value: the placeholder after the name in --help */
} option;

typedef struct table {
    option option[OPTIONS];
    size_t count;
} table;

static const char *const names[COMMANDS] = {"train",   "eval",   "generate", "tokenize",
                                            "inspect", "export", "verify",   "bench",
                                            "probe",   "plan",   "chat"};
static table tables[COMMANDS];

/* Parses lines such as "  --lr X    highest learning rate". */
static void read_help(table *t, const char *text)
{
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        if (*line == '\n') ++line;
        if (strncmp(line, "  --", 4) != 0 || t->count == OPTIONS) continue;
        option *o = &t->option[t->count++];
        size_t size = strcspn(line + 4, " \n");
        snprintf(o->name, sizeof o->name, "%.*s", (int)size, line + 4);
        const char *next = line + 4 + size;
        if (next[0] == ' ' && next[1] != ' ' && next[1] != '\n')
            snprintf(o->value, sizeof o->value, "%.*s", (int)strcspn(next + 1, " \n"), next + 1);
    }
}

static void prepare(campaign_case *c)
{
    char path[CAMPAIGN_PATH], to[CAMPAIGN_PATH];
    for (int i = 0; i < COMMANDS; ++i) {
        campaign_command command;
        command_begin(&command, names[i]);
        command_words(&command, "--help");
        if (campaign_run(c, &command, 60) != 0) campaign_wrong(c, "no help for %s", names[i]);
        char *text = campaign_read(campaign_path(c->folder, "out", path), NULL);
        read_help(&tables[i], text);
        if (!tables[i].count) campaign_wrong(c, "%s --help has no options", names[i]);
        free(text);
        command_free(&command);
    }
    campaign_tool(c, "cp", "-r", campaign_golden("models/llama", path),
                  campaign_path(c->work, "model", to), (char *)NULL);
    campaign_write(c, campaign_path(c->work, "text.txt", path),
                   "words and other words, and more of them, until there are enough of them\n", 72);
}

static const char *const odd[] = {"",
                                  " ",
                                  "-",
                                  "--",
                                  "=",
                                  "==",
                                  ",",
                                  ",,",
                                  ":",
                                  ":5G",
                                  "/",
                                  "/dev/null",
                                  "/dev/zero",
                                  "/dev/full",
                                  ".",
                                  "..",
                                  "../..",
                                  "nothing",
                                  "-1",
                                  "-0",
                                  "0",
                                  "1",
                                  "2",
                                  "3",
                                  "7",
                                  "16",
                                  "64",
                                  "4096",
                                  "65536",
                                  "1e3",
                                  "1e20",
                                  "1e309",
                                  "-1e309",
                                  "1e-320",
                                  "nan",
                                  "-nan",
                                  "inf",
                                  "0x10",
                                  "1_000",
                                  "1,000",
                                  "2147483648",
                                  "9223372036854775807",
                                  "9223372036854775808",
                                  "18446744073709551615",
                                  "18446744073709551616",
                                  "-9223372036854775809",
                                  "1.5",
                                  ".5",
                                  "5.",
                                  "+5",
                                  " 5",
                                  "5 ",
                                  "1K",
                                  "4K",
                                  "64M",
                                  "1.5G",
                                  "24GB",
                                  "100T",
                                  "16E",
                                  "99999999999999999999P",
                                  "50%",
                                  "0%",
                                  "101%",
                                  "-5%",
                                  "%",
                                  "%s%n%d",
                                  "\xD9\xA1\xD9\xA2",
                                  "\xC3\xA9",
                                  "\xFF\xFE",
                                  "\xE6\x97\xA5\xE6\x9C\xAC",
                                  "true",
                                  "on",
                                  "off",
                                  "yes",
                                  "auto",
                                  "cpu",
                                  "cuda:99",
                                  "cuda:-1",
                                  "bytes",
                                  "all",
                                  "none",
                                  "*",
                                  "[",
                                  "a*,b*",
                                  "$HOME",
                                  "~",
                                  "a\nb",
                                  "a\tb",
                                  "{}",
                                  "null",
                                  "'",
                                  "\"",
                                  "\\",
                                  "3X",
                                  "fp8",
                                  "adam"};

static const char *random_odd(campaign_case *c)
{
    return odd[campaign_random(c, sizeof odd / sizeof *odd)];
}

/* One of the words of "a|b|c", or a valid value. */
static void sensible(campaign_case *c, const option *o, char *value, size_t size)
{
    const char *words = o->value;
    if (strstr(o->name, "model") == o->name) {
        snprintf(value, size, "%s/model", c->work);
    } else if (strstr(o->name, "data")) {
        snprintf(value, size, "%s/%s", c->work,
                 campaign_random(c, 2) ? "model/tokens.npy" : "text.txt");
    } else if (strchr(words, '|') && !strchr(words, '/')) {
        for (uint64_t skip = campaign_random(c, 4); skip && strchr(words, '|'); --skip)
            words = strchr(words, '|') + 1;
        snprintf(value, size, "%.*s", (int)strcspn(words, "|"), words);
    } else if (strcmp(words, "SIZE") == 0) {
        snprintf(value, size, "%dM", 1 + (int)campaign_random(c, 64));
    } else if (strcmp(words, "X") == 0) {
        snprintf(value, size, "0.%d", (int)campaign_random(c, 100));
    } else if (strcmp(words, "N") == 0) {
        snprintf(value, size, "%d", 1 + (int)campaign_random(c, 8));
    } else {
        snprintf(value, size, "%s", words[0] == 'P' ? "." : "here");
    }
}

static void add_flag(campaign_case *c, const table *t, campaign_command *command)
{
    const option *o = &t->option[campaign_random(c, t->count)];
    char value[CAMPAIGN_PATH + 32], name[64];
    snprintf(name, sizeof name, "--%s", o->name);
    if (campaign_random(c, 2))
        snprintf(value, sizeof value, "%s", random_odd(c));
    else
        sensible(c, o, value, sizeof value);
    switch (campaign_random(c, 24)) {
    case 0:
        name[2 + campaign_random(c, strlen(o->name))] = 0;
        break; /* abbreviated */
    case 1:
        memmove(name, name + 1, strlen(name));
        break; /* one dash */
    case 2:
        name[2] = (char)(name[2] - 32);
        break; /* upper case */
    case 3:
        snprintf(name, sizeof name, "--no-%s", o->name);
        break;
    case 4:
        snprintf(name, sizeof name, "--%s_x", o->name);
        break;
    case 5:
        snprintf(name, sizeof name, "%s", random_odd(c));
        break;
    default:
        break;
    }
    uint64_t form = campaign_random(c, 8);
    if (form == 0 || (!o->value[0] && form > 1))
        command_add(command, "%s", name);
    else if (form < 4)
        command_add(command, "%s=%s", name, value);
    else {
        command_add(command, "%s", name);
        command_add(command, "%s", value);
    }
}

/* The options that the command requires, so that only the odd flag can be refused. */
static void add_base(campaign_case *c, int which, campaign_command *command)
{
    static const char *const base[COMMANDS] = {"--out=run --seq 16 --batch 2 --steps 2 --threads 1",
                                               "--seq 16 --batch 2 --threads 1",
                                               "--prompt=x --max-tokens=4 --threads 1",
                                               "",
                                               "",
                                               "",
                                               "",
                                               "",
                                               "",
                                               "--seq 16",
                                               "--context 16 --threads 1"};
    const char *name = names[which];
    bool model = strcmp(name, "train") == 0 || strcmp(name, "eval") == 0 ||
                 strcmp(name, "generate") == 0 || strcmp(name, "tokenize") == 0 ||
                 strcmp(name, "plan") == 0 || strcmp(name, "chat") == 0;
    if (model) command_add(command, "--model=%s/model", c->work);
    if (which < 2) command_add(command, "--data=%s/model/tokens.npy", c->work);
    if (strcmp(name, "inspect") == 0 || strcmp(name, "verify") == 0 || strcmp(name, "export") == 0)
        command_add(command, "%s/model", c->work);
    if (strcmp(name, "export") == 0) command_words(command, "exported");
    if (strcmp(name, "bench") == 0) command_words(command, "io");
    command_words(command, base[which]);
}

/* After a refusal only the case's own files exist. */
static void check_nothing(campaign_case *c)
{
    const struct dirent *entry;
    DIR *folder = opendir(c->folder);
    while (folder && (entry = readdir(folder)))
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, "out") != 0 &&
            strcmp(entry->d_name, "err") != 0)
            campaign_wrong(c, "refused, but left %s: %s", entry->d_name, campaign_said(c));
    if (folder) closedir(folder);
}

static int run(campaign_case *c)
{
    int which = (int)campaign_random(c, COMMANDS);
    campaign_command command;
    bool interrupted = false;
    command_begin(&command, names[which]);
    command.limited = true;
    if (campaign_random(c, 4)) add_base(c, which, &command);
    for (uint64_t i = 1 + campaign_random(c, 4); i > 0; --i) add_flag(c, &tables[which], &command);
    command_text(&command, c->details, sizeof c->details);
    int code = campaign_try(c, &command, 5, &interrupted);
    command_free(&command);
    if (code == 2) check_nothing(c);
    campaign_check_left(c);
    if (code == 1 || code == 2) return code == 2 ? REFUSED : FAILED;
    return interrupted ? INTERRUPTED : RAN;
}

int main(int argc, char **argv)
{
    static const char *const outcomes[] = {"ran", "refused as usage", "failed with one line",
                                           "were interrupted", NULL};
    static const campaign flags = {
        "odd command lines", "wrong ends", outcomes, 600, 40, prepare, run};
    return campaign_main(&flags, argc, argv);
}
