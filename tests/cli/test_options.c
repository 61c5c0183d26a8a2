/* Options are set from flags and from a file; errors name the wrong option. */
#include "cli/options.h"
#include "check.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct values {
    const char *name, *note, *word, *config, *path;
    const char *const *list;
    size_t list_count;
    int64_t wide;
    int narrow;
    uint64_t seed, size, memory;
    const hil_disk_budget *disks;
    size_t disk_count;
    double real, left, right;
    int choice;
    bool pick, on, off;
} values;

static const hil_range positive = {1, 1000, "from 1 to 1000"};
static const hil_range unit = {0, 1, "from 0 to 1"};

#define ROW(name, kind, field, ...) HIL_ROW(name, kind, values, field, __VA_ARGS__)
static const hil_option rows[] = {
    ROW("name", TEXT, name, "TEXT", "a text", .required = true, .group = "All"),
    ROW("note", TEXT, note, "TEXT", "may be empty", .empty = true),
    ROW("data-list", LIST, list, "A,B", "a list", .required = true),
    ROW("wide", WHOLE, wide, "N", "int64_t", .range = &positive),
    ROW("narrow", WHOLE, narrow, "N", "int"),
    ROW("seed", SEED, seed, "N", "uint64_t"),
    ROW("size", SIZE, size, "SIZE", "bytes"),
    ROW("memory", MEMORY, memory, "SIZE", "bytes or %"),
    ROW("disk", DISK, disks, "PATH[:SIZE]", "folders"),
    ROW("real", REAL, real, "X", "double", .range = &unit),
    ROW("word", WORD, word, "red|green|blue", "one of"),
    ROW("choice", CHOICE, choice, "zero|one|two", "an index"),
    ROW("pick", CHOICE, pick, "no|yes", "an index in a bool"),
    ROW("on", ON, on, NULL, "switch"),
    ROW("no-off", OFF, off, NULL, "switch", .rival = "on"),
    ROW("left", REAL, left, "X", "excludes right", .rival = "right"),
    ROW("right", REAL, right, "X", "excludes left", .rival = "left"),
    ROW("config", CONFIG, config, "FILE", "file"),
};
static const hil_command command = {
    .name = "try",
    .summary = "Tries.",
    .usage = "[options]",
    .example = "  try\n",
    .option = rows,
    .count = sizeof rows / sizeof *rows,
    .operand = {{.name = "path", .offset = offsetof(values, path)}}};

static char config_path[] = "/tmp/hilbert-options-XXXXXX";
static values v;
static hil_parsed parsed;

/* Parses `line`, split at spaces, after the required options ("-" in front omits those). */
static hil_status parse(const char *line)
{
    static char copy[512];
    char *argv[60], *rest;
    int argc = 0;
    hil_parsed_free(&parsed);
    v = (values){.word = "red", .off = true, .real = 0.5};
    snprintf(copy, sizeof copy, "%s%s",
             *line == '-' && line[1] == ' ' ? "" : "x --name n --data-list a ",
             *line == '-' && line[1] == ' ' ? line + 2 : line);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    return hil_options_parse(&parsed, &command, argc, argv, &v);
}

static hil_status parse_file(const char *json, const char *line)
{
    char whole[512];
    FILE *file = fopen(config_path, "w");
    CHECK(file != NULL);
    fputs(json, file);
    fclose(file);
    snprintf(whole, sizeof whole, "%s --config %s", line, config_path);
    return parse(whole);
}

static void check_flags(void)
{
    CHECK_OK(parse("--wide 7 --narrow=-3 --seed 18446744073709551615 --size 3G --real 2.5e-1"));
    CHECK_TEXT(v.name, "n");
    CHECK_TEXT(v.path, "x");
    CHECK_INT(v.wide, 7);
    CHECK_INT(v.narrow, -3);
    CHECK(v.seed == UINT64_MAX);
    CHECK(v.size == 3221225472u);
    CHECK(v.real == 0.25);
    CHECK_OK(parse("--word=blue --choice two --pick yes --on --data-list b,c --data_list=d"));
    CHECK_TEXT(v.word, "blue");
    CHECK_INT(v.choice, 2);
    CHECK(v.pick && v.on && v.off);
    CHECK_INT(v.list_count, 4);
    CHECK_TEXT(v.list[0], "a");
    CHECK_TEXT(v.list[1], "b");
    CHECK_TEXT(v.list[2], "c");
    CHECK_TEXT(v.list[3], "d");
    CHECK_OK(parse("--no-off --wide 1 --wide 2 --note= --size 5"));
    CHECK(!v.off && v.wide == 2 && v.size == 5);
    CHECK_TEXT(v.note, "");
    CHECK_OK(parse("- --data-list a --name -- -- --odd"));
    CHECK_TEXT(v.name, "--");
    CHECK_TEXT(v.path, "--odd");
    CHECK_OK(parse("--name --surprise"));
    CHECK_TEXT(v.name, "--surprise");
    CHECK_OK(parse("--wide nonsense --help"));
    CHECK(parsed.help);
}

static void check_disk(size_t i, const char *path, uint64_t bytes)
{
    CHECK_TEXT(v.disks[i].path, path);
    CHECK_INT(v.disks[i].bytes, bytes);
}

static void check_memory(void)
{
    CHECK_OK(parse("--memory 700K"));
    CHECK_INT(v.memory, 700 << 10);
    CHECK_OK(parse("--memory 2t"));
    CHECK(v.memory == (uint64_t)2 << 40);
    CHECK_OK(parse("--memory 50%"));
    uint64_t half = v.memory;
    CHECK_OK(parse("--memory 100%"));
    CHECK(half > 0 && v.memory > half && v.memory < 4 * half);
    CHECK_OK(parse("--disk /a --disk /b:3G --disk=/c:d --disk /e:f:4096 --disk /g:q5 --disk /h:"));
    CHECK_INT(v.disk_count, 6);
    check_disk(0, "/a", 0);
    check_disk(1, "/b", (uint64_t)3 << 30);
    check_disk(2, "/c:d", 0);
    check_disk(3, "/e:f", 4096);
    check_disk(4, "/g:q5", 0);
    check_disk(5, "/h:", 0);
    CHECK_OK(parse("--disk /:10% --disk /:100%"));
    CHECK(v.disks[0].bytes > 0 && v.disks[1].bytes > v.disks[0].bytes);
    CHECK_TEXT(v.disks[1].path, "/");
    CHECK_OK(parse_file("{\"disk\": [\"/a,b:1M\", \"/c\"], \"memory\": \"1%\"}", ""));
    CHECK_INT(v.disk_count, 2);
    check_disk(0, "/a,b", 1 << 20);
    CHECK(v.memory > 0);
    CHECK_OK(parse_file("{\"disk\": \"/a:2K\", \"memory\": 12345}", ""));
    check_disk(0, "/a", 2048);
    CHECK_INT(v.memory, 12345);
}

/* Units as people write them: K is 1024, KB is 1000. */
static void check_units(void)
{
    static const struct {
        const char *text;
        uint64_t bytes;
        const char *said;
    } size[] = {
        {"24GB", 24000000000, "--memory 24GB is 22.4 GiB"},
        {"24gb", 24000000000, "--memory 24gb is 22.4 GiB"},
        {"24GiB", (uint64_t)24 << 30, NULL},
        {"24gib", (uint64_t)24 << 30, NULL},
        {"24G", (uint64_t)24 << 30, NULL},
        {"1.5G", (uint64_t)3 << 29, NULL},
        {"0.25MiB", 1 << 18, NULL},
        {"1.5kB", 1500, "--memory 1.5kB is 1.5 KiB"},
        {"2.000TB", 2000000000000, "--memory 2.000TB is 1.8 TiB"},
        {"1P", (uint64_t)1 << 50, NULL},
        {"700B", 700, NULL},
    };
    char line[64];
    for (size_t i = 0; i < sizeof size / sizeof *size; ++i) {
        snprintf(line, sizeof line, "--memory %s", size[i].text);
        CHECK_OK(parse(line));
        CHECK(v.memory == size[i].bytes);
        if (size[i].said)
            CHECK_TEXT(parsed.understood.data, size[i].said);
        else
            CHECK(!parsed.understood.data);
    }
    CHECK_OK(parse("--disk nvme:2TB --disk /a:b:1.5TiB --memory 1GB --disk c:7gb"));
    check_disk(0, "nvme", 2000000000000);
    check_disk(1, "/a:b", (uint64_t)3 << 39);
    check_disk(2, "c", 7000000000);
    CHECK_TEXT(parsed.understood.data, "--disk nvme:2TB is 1.8 TiB, --memory 1GB is 953.7 MiB, "
                                       "--disk c:7gb is 6.5 GiB");
}

/* PATH:SIZE is a folder if a folder of the whole name exists, unless PATH exists too. */
static void check_colons(void)
{
    char folder[64] = "/tmp/hilbert-colon-XXXXXX", odd[80], line[120];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(odd, sizeof odd, "%s/a:5X", folder);
    snprintf(line, sizeof line, "--disk %s", odd);
    CHECK_FAILS(parse(line), HIL_ERR_USAGE, "'5X' is not a size");
    CHECK(mkdir(odd, 0700) == 0);
    CHECK_OK(parse(line));
    check_disk(0, odd, 0);
    snprintf(line, sizeof line, "--disk %s:5G", odd);
    CHECK_OK(parse(line));
    check_disk(0, odd, (uint64_t)5 << 30);
    CHECK(rmdir(odd) == 0);
    snprintf(odd, sizeof odd, "%s/a:5G", folder);
    snprintf(line, sizeof line, "--disk %s", odd);
    CHECK(mkdir(odd, 0700) == 0);
    CHECK_OK(parse(line));
    check_disk(0, odd, 0);
    CHECK(rmdir(odd) == 0 && rmdir(folder) == 0);
}

static void check_bad_flags(void)
{
    static const struct {
        const char *line, *words;
    } bad[] = {
        {"--wdie 3", "unknown option --wdie; did you mean --wide?"},
        {"--zzzzzzzzzz", "unknown option --zzzzzzzzzz; see hilbert try --help"},
        {"-w 3", "unknown option -w"},
        {"--wide", "--wide needs a value: N"},
        {"--wide --on", "--wide needs a value: N"},
        {"--on=1", "--on takes no value"},
        {"--wide 0", "--wide must be from 1 to 1000, not 0"},
        {"--wide 1001", "--wide must be from 1 to 1000, not 1001"},
        {"--wide 1.5", "'1.5' is not a whole number"},
        {"--wide 7x", "'7x' is not a whole number"},
        {"--name=", "--name must not be empty"},
        {"--wide=", "'' is not a whole number"},
        {"--wide 99999999999999999999", "too large"},
        {"--narrow 3000000000", "too large"},
        {"--seed -1", "--seed: '-1' is not a whole number of 0 or more"},
        {"--seed 18446744073709551616", "too large"},
        {"--seed 1K", "'1K' is not a whole number"},
        {"--size 5Q", "'5Q' is not a size"},
        {"--size 5MM", "'5MM' is not a size"},
        {"--size 16777216T", "too large"},
        {"--size 50%", "'50%' is not a size; write bytes, or 64M, 1.5G or 2T (powers of 1024)"},
        {"--memory 0%", "--memory must be from 1% to 100%, not 0%"},
        {"--memory 101%", "--memory must be from 1% to 100%"},
        {"--memory %", "'%' is not a size; write bytes, or"},
        {"--memory 1.5", "'1.5' is not a size"},
        {"--memory 1.G", "'1.G' is not a size"},
        {"--memory .5G", "'.5G' is not a size"},
        {"--memory 1.5.5G", "'1.5.5G' is not a size"},
        {"--memory 5GBs", "'5GBs' is not a size"},
        {"--memory 5GI", "'5GI' is not a size"},
        {"--memory 1e9", "'1e9' is not a size"},
        {"--memory 12.5%", "12.5% must be a whole percentage"},
        {"--disk /nowhere:2TBs", "'2TBs' is not a size"},
        {"--memory 5%%", "'5%%' is not a size"},
        {"--memory -5", "'-5' is not a size"},
        {"--memory 99999999999999999999", "too large"},
        {"--disk=", "names no folder"},
        {"--disk :1G", "':1G' names no folder"},
        {"--disk /a:0", "no bytes of /a may be used"},
        {"--disk 1 --disk 2 --disk 3 --disk 4 --disk 5 --disk 6 --disk 7 --disk 8 --disk 9"
         " --disk 10 --disk 11 --disk 12 --disk 13 --disk 14 --disk 15 --disk 16 --disk 17",
         "--disk: at most 16 folders"},
        {"--real 1.1", "--real must be from 0 to 1, not 1.1"},
        {"--real nan", "'nan' is not a number"},
        {"--real inf", "'inf' is not a number"},
        {"--real 0x1", "'0x1' is not a number"},
        {"--real 0.1.2", "'0.1.2' is not a number"},
        {"--left 1e999", "too large"},
        {"--word reddish", "--word must be one of red|green|blue, not 'reddish'"},
        {"--choice three", "--choice must be one of zero|one|two"},
        {"--data-list a,,b", "a name in the list is empty"},
        {"--left 1 --right 2", "give --left or --right, not both"},
        {"y", "'y' is one too many"},
        {"- x --name n", "try needs --data-list; see hilbert try --help"},
        {"- --wide 3", "try needs --name and --data-list and a path"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i)
        CHECK_FAILS(parse(bad[i].line), HIL_ERR_USAGE, bad[i].words);
}

static void check_file(void)
{
    CHECK_OK(
        parse_file("{\"wide\": 9, \"narrow\": 1e2, \"seed\": 5, \"size\": \"2K\", \"real\": 1,"
                   " \"word\": \"green\", \"choice\": \"one\", \"on\": true, \"no_off\": false,"
                   " \"name\": \"file\", \"data_list\": [\"p,q\", \"r\"]}",
                   "- x --real 0.75"));
    CHECK_INT(v.wide, 9);
    CHECK_INT(v.narrow, 100);
    CHECK(v.seed == 5 && v.size == 2048 && v.real == 0.75 && v.on && v.off);
    CHECK_TEXT(v.word, "green");
    CHECK_TEXT(v.name, "file");
    CHECK_INT(v.choice, 1);
    CHECK_INT(v.list_count, 2);
    CHECK_TEXT(v.list[0], "p,q");
    CHECK_TEXT(v.list[1], "r");
    CHECK_OK(parse_file("{\"data-list\": \"p,q\", \"size\": 4096, \"left\": 3}", "--right 2"));
    CHECK_INT(v.list_count, 1);
    CHECK(v.left == 0 && v.right == 2 && v.size == 4096);
}

static void check_bad_file(void)
{
    static const struct {
        const char *json, *words;
    } bad[] = {
        {"{\"wdie\": 3}", "unknown option \"wdie\"; did you mean \"wide\"?"},
        {"{\"wide\": \"3\"}", "\"wide\" must be a whole number, not a string"},
        {"{\"wide\": 1.5}", "\"wide\" must be a whole number, not 1.5"},
        {"{\"wide\": 5000}", "\"wide\" must be from 1 to 1000"},
        {"{\"real\": \"x\"}", "\"real\" must be a number, not a string"},
        {"{\"real\": null}", "\"real\" must be a number, not null"},
        {"{\"seed\": -1}", "is not a whole number of 0 or more"},
        {"{\"word\": 1}", "\"word\" must be a string, not a number"},
        {"{\"word\": \"x\"}", "must be one of red|green|blue"},
        {"{\"on\": 1}", "\"on\" must be true or false, not a number"},
        {"{\"no-off\": true, \"no_off\": true}", "\"no_off\" is given twice"},
        {"{\"left\": 1, \"right\": 1}", "give --left or --right, not both"},
        {"{\"config\": \"x\"}", "\"config\" cannot be given in a file"},
        {"[1]", "must be a JSON object of options, not an array"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i)
        CHECK_FAILS(parse_file(bad[i].json, ""), HIL_ERR_USAGE, bad[i].words);
    CHECK_FAILS(parse_file("{\"data-list\": [1]}", "- x --name n"), HIL_ERR_USAGE,
                "\"data-list\" must be an array of strings, not a number");
    CHECK_FAILS(parse_file("{\"name\": \"\"}", "- x --data-list a"), HIL_ERR_USAGE,
                "\"name\" must not be empty");
    CHECK_FAILS(parse_file("{\"data-list\": []}", "- x --name n"), HIL_ERR_USAGE, "list is empty");
    CHECK_FAILS(parse_file("{\"wide\": 3, \"wide\": 4}", ""), HIL_ERR_USAGE, "duplicate");
    CHECK_FAILS(parse_file("{\"wide\": 3", ""), HIL_ERR_USAGE, "not valid JSON");
    CHECK_FAILS(parse("--config /nonexistent/x.json"), HIL_ERR_IO, "cannot open");
    CHECK_FAILS(parse("--config /"), HIL_ERR_IO, "cannot read");
}

static void check_no_memory(void)
{
    long n = 0;
    hil_status status;
    do {
        hil_alloc_fail_at(++n);
        status = parse_file("{\"data_list\": [\"p\", \"q\"], \"wide\": 3}", "- x --name n");
        hil_alloc_fail_at(0);
        CHECK(status == HIL_OK || status == HIL_ERR_MEMORY);
    } while (status != HIL_OK);
    CHECK(n > 3);
}

int main(void)
{
    int fd = mkstemp(config_path);
    CHECK(fd >= 0);
    close(fd);
    check_flags();
    check_memory();
    check_units();
    check_colons();
    check_bad_flags();
    check_file();
    check_bad_file();
    check_no_memory();
    hil_parsed_free(&parsed);
    unlink(config_path);
    return 0;
}
