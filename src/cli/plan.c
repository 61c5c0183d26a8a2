/* plan.c - hilbert plan. */
#include "hilbert/plan.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/train_options.h"

#include <glob.h>
#include <string.h>
#include <unistd.h>

enum { OWN = 6 };
static const hil_option own[OWN] = {
    HIL_ROW("ranks", WHOLE, hil_train_values, ranks, "N",
            "plan for so many ranks on this machine, without starting them", .initial = "1",
            .range = &hil_range_count),
    HIL_ROW("gpu", TEXT, hil_train_values, gpu, "NAME",
            "plan for this GPU, here or not: H100, \"RTX 4090\"", .initial = "as --device",
            .rival = "device"),
    HIL_ROW("context", WHOLE, hil_train_values, context, "N",
            "plan a chat of so many tokens, instead of training", .initial = "training",
            .range = &hil_range_count),
    HIL_ROW("cluster", TEXT, hil_train_values, cluster, "FILE|NAME",
            "plan for the machine of this file, or dgx-h200 ...", .initial = "this machine",
            .rival = "ranks"),
    HIL_ROW("largest", ON, hil_train_values, largest, NULL,
            "with --cluster: find the largest such model that fits, too"),
    HIL_ROW("json", ON, hil_train_values, json, NULL,
            "print one JSON object, which train --plan follows"),
};

/* The options of train, of which --data and --out are not required, and those of plan. */
static void make_rows(hil_option *row)
{
    memcpy(row, hil_train_rows, sizeof hil_train_rows);
    for (int i = 0; i < HIL_TRAIN_ROWS; ++i)
        if (row[i].required && strcmp(row[i].name, "model") != 0) {
            row[i].required = false;
            row[i].initial = "not needed";
        }
    memcpy(row + HIL_TRAIN_ROWS, own, sizeof own);
}

/* Fails with the names of the descriptions in the folder. */
static hil_status no_cluster(const char *name, const char *folder)
{
    char pattern[HIL_PATH_MAX], names[600] = "";
    glob_t found = {0};
    size_t used = 0;
    HIL_TRY(hil_path_join(pattern, folder, "*.json"));
    if (glob(pattern, 0, NULL, &found) != 0) found.gl_pathc = 0;
    for (size_t i = 0; i < found.gl_pathc && used + 100 < sizeof names; ++i) {
        const char *file = strrchr(found.gl_pathv[i], '/') + 1;
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%.*s", i ? ", " : "",
                                 (int)(strlen(file) < 90 ? strlen(file) - 5 : 90), file);
    }
    globfree(&found);
    return hil_fail(HIL_ERR_USAGE,
                    "--cluster %s: there is no such file, and no description of that name in %s: "
                    "there are %s",
                    name, folder, names);
}

/* The description of a cluster: a file, or the name of one that comes with hilbert (where it is
   installed, in the wheel, in the source tree). */
static hil_status find_cluster(char path[HIL_PATH_MAX], const char **cluster)
{
    static const char *const folders[] = {"../share/hilbert/clusters", "clusters", "../clusters"};
    char folder[HIL_PATH_MAX], file[128];
    const char *name = *cluster;
    if (!name || strcmp(name, "this") == 0 || strchr(name, '/') || access(name, F_OK) == 0)
        return HIL_OK;
    const char *end = strstr(name, ".json") ? "" : ".json";
    if (!hil_command_find(folder, folders, sizeof folders / sizeof *folders)) return HIL_OK;
    snprintf(file, sizeof file, "%.100s%s", name, end);
    HIL_TRY(hil_path_join(path, folder, file));
    if (access(path, F_OK) != 0) return no_cluster(name, folder);
    *cluster = path;
    return HIL_OK;
}

static int run(int argc, char **argv)
{
    hil_train_values values = {0};
    hil_option rows[HIL_TRAIN_ROWS + OWN];
    hil_command command = hil_command_plan;
    hil_parsed parsed;
    int code = 0;
    char path[HIL_PATH_MAX], prefixes[HIL_PATH_MAX], cluster[HIL_PATH_MAX];
    hil_train_defaults(&values.run);
    make_rows(rows);
    command.option = rows;
    command.count = HIL_TRAIN_ROWS + OWN;
    if (!hil_command_begin(&command, argc, argv, &values, &parsed, &code)) return code;
    values.run.device.prefixes = hil_command_prefixes(prefixes);
    values.run.probe_cache = hil_command_probe_cache(path);
    hil_plan_options form;
    hil_plan_defaults(&form);
    form.json = values.json;
    form.ranks = values.ranks;
    form.gpu = values.gpu;
    form.context = values.context;
    form.largest = values.largest;
    hil_command_catch_signals(NULL);
    values.run.stop = &hil_command_stop;
    hil_progress progress;
    hil_progress_begin(&progress, stderr,
                       values.quiet ? HIL_VERBOSITY_QUIET : HIL_VERBOSITY_NORMAL);
    hil_command_report_sizes(&parsed, &progress.hooks);
    hil_status status = hil_train_values_merge(&values, &parsed, values.ranks ? values.ranks : 1);
    if (status == HIL_OK) status = find_cluster(cluster, &values.cluster);
    form.cluster = values.cluster;
    if (status == HIL_OK) {
        hil_train_values_report(&values, &progress.hooks);
        status = hil_plan_show(&values.run, &form, &progress.hooks, stdout);
    }
    hil_progress_end(&progress);
    int flushed = hil_command_flush();
    code = status == HIL_OK                ? flushed
           : status == HIL_ERR_INTERRUPTED ? hil_command_stopped()
                                           : hil_command_fail(status);
    hil_deepspeed_free(&values.deepspeed);
    hil_parsed_free(&parsed);
    return code;
}

const hil_command hil_command_plan = {
    .name = "plan",
    .summary = "Shows what would be kept where, what moves, and how long a step takes.",
    .usage = "--model DIR|config.json [options of train] [--gpu NAME|--cluster FILE] [--json]",
    .example = "  hilbert plan --model gpt2 --batch 32 --device-memory 1G --host-memory 2G\n",
    .run = run,
};
