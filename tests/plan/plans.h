/* plans.h - makes the plan of a run, lets a test edit it, and writes it as a plan file. */
#ifndef HIL_TESTS_PLANS_H
#define HIL_TESTS_PLANS_H

#include "hilbert/plan.h"
#include "../run/job.h"

/* What `hilbert plan --json` says for these options; released with json_decref. */
static inline json_t *plan_of(const hil_train_options *options)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    CHECK(out != NULL);
    hil_plan_options form;
    hil_plan_defaults(&form);
    form.json = true;
    CHECK_OK(hil_plan_show(options, &form, NULL, out));
    CHECK(fclose(out) == 0);
    json_t *plan;
    CHECK_OK(hil_json_parse(text, size, "plan", &plan));
    free(text);
    return plan;
}

static inline void plan_set(json_t *object, const char *key, int64_t number)
{
    CHECK(json_object_set_new(object, key, json_integer(number)) == 0);
}

static inline void plan_set_text(json_t *object, const char *key, const char *text)
{
    CHECK(json_object_set_new(object, key, json_string(text)) == 0);
}

/* The number plan[group][key], or plan[key] if `group` is "". */
static inline int64_t plan_number(const json_t *plan, const char *group, const char *key)
{
    const json_t *value = json_object_get(group[0] ? json_object_get(plan, group) : plan, key);
    CHECK(json_is_integer(value));
    return json_integer_value(value);
}

/* Writes an edited plan to `file`, sets options->plan to it, and returns the plan that results. */
static inline json_t *plan_again(json_t *edited, const char *file, hil_train_options *options)
{
    CHECK(json_dump_file(edited, file, 0) == 0);
    json_decref(edited);
    options->plan = file;
    return plan_of(options);
}

/* Checks that a metric is `expected` in all steps after the first `from`; `what` names the case. */
static inline void plan_check_metric(const hil_train_options *run, const char *key, int from,
                                     int64_t expected, const char *what)
{
    double got[16];
    CHECK(run->steps <= 16);
    CHECK_INT(job_metrics(run->out, key, got, (int)run->steps), run->steps);
    for (int s = from; s < run->steps; ++s)
        if ((int64_t)got[s] != expected) {
            printf("%s, step %d: %s is %.0f, planned %lld\n", what, s + 1, key, got[s],
                   (long long)expected);
            exit(1);
        }
}

/* Checks peaks of all tiers from a step on, and bytes over every link after step 2, against the
   plan. */
static inline void plan_check_run(const json_t *plan, const hil_train_options *run, int peaks_from,
                                  const char *what)
{
    static const char *const tiers[] = {"device", "host", "disk"};
    static const char *const moved[] = {"disk_read", "disk_written", "to_device", "to_host"};
    char key[64];
    for (int i = 0; i < 3; ++i) {
        snprintf(key, sizeof key, "%s_peak", tiers[i]);
        plan_check_metric(run, key, peaks_from, plan_number(plan, "peak", tiers[i]), what);
    }
    for (int i = 0; i < 4; ++i) {
        snprintf(key, sizeof key, "%s_bytes", moved[i]);
        plan_check_metric(run, key, 2, plan_number(plan, "bytes_per_step", moved[i]), what);
    }
}

#endif
