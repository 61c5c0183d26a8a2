/* plans.h - plans of runs, edited by a test and handed back as files. */
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

/* A number by its path of two names, "" for none. */
static inline int64_t plan_number(const json_t *plan, const char *group, const char *key)
{
    const json_t *value = json_object_get(group[0] ? json_object_get(plan, group) : plan, key);
    CHECK(json_is_integer(value));
    return json_integer_value(value);
}

#endif
