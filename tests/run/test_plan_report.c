/* A plan as data has the numbers of its JSON object, and a run that does not fit is a report that
   says what is missing. */
#include "plan/plans.h"

static uint64_t number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    CHECK(json_is_integer(value));
    return (uint64_t)json_integer_value(value);
}

static void check_row(const json_t *plan, const char *key, const hil_plan_row *row)
{
    const json_t *object = json_object_get(plan, key);
    CHECK_TEXT(row->name, key);
    CHECK(number(object, "device") == row->device && number(object, "host") == row->host &&
          number(object, "disk") == row->disk);
}

static void check_fits(const hil_train_options *options, const hil_plan_options *form)
{
    hil_plan_report *r;
    CHECK_OK(hil_plan_open(&r, options, form, NULL));
    json_t *plan = plan_of(options);
    const json_t *moved = json_object_get(plan, "bytes_per_step");
    CHECK(r->fits && r->rows >= 4);
    CHECK_TEXT(r->model_type, "gpt2");
    CHECK_TEXT(r->row[0].name, "weights");
    CHECK_INT(r->length, options->seq);
    check_row(plan, "peak", &r->peak);
    check_row(plan, "budget", &r->budget);
    CHECK(number(moved, "to_device") == r->to_device_bytes &&
          number(moved, "disk_read") == r->disk_read_bytes);
    CHECK(r->disk_written_bytes > 0 && r->states.disk > 0);
    CHECK_TEXT(r->limit, json_string_value(json_object_get(plan, "limit")));
    CHECK_NEAR(r->step_seconds, json_number_value(json_object_get(plan, "step_seconds")),
               1e-6 * r->step_seconds);
    json_t *object;
    CHECK_OK(hil_json_parse(r->json, strlen(r->json), "plan", &object));
    CHECK(json_equal(object, plan));
    json_decref(object);
    json_decref(plan);
    hil_plan_close(r);
    hil_plan_close(NULL);
}

int main(void)
{
    job_place place;
    char out[JOB_PATH], drive[JOB_PATH];
    job_begin(&place);
    hil_train_options options = job_options(&place, "gpt2", job_path(&place, out, "run"));
    hil_plan_options form;
    hil_plan_report *r;
    hil_disk_budget disk = {job_path(&place, drive, "drive"), 16 << 20};
    hil_plan_defaults(&form);
    options.memory.device = 300 << 10;
    options.memory.host = 300 << 10;
    options.memory.disks = &disk;
    options.memory.disk_count = 1;
    check_fits(&options, &form);
    options.memory.device = 4 << 10;
    CHECK_OK(hil_plan_open(&r, &options, &form, NULL));
    CHECK(!r->fits && strstr(r->missing, "memory") && strstr(r->json, "\"fits\": false"));
    CHECK_INT(r->budget.device, 4 << 10);
    hil_plan_close(r);
    options.model = "/nonexistent";
    CHECK_FAILS(hil_plan_open(&r, &options, &form, NULL), HIL_ERR_INPUT, "/nonexistent");
    CHECK(r == NULL);
    job_end(&place);
    return 0;
}
