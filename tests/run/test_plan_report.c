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

static const hil_plan_row *find_row(const hil_plan_report *r, const char *name)
{
    for (size_t i = 0; i < r->rows; ++i)
        if (strcmp(r->row[i].name, name) == 0) return &r->row[i];
    return NULL;
}

/* The base and the adapter have rows of their own, and bytes of a quantized base are not counted as
   parameters. */
static void check_adapter(hil_train_options options, const hil_plan_options *form)
{
    hil_plan_report *r;
    options.adapter.source = "lora";
    options.adapter.rank = 4;
    options.base_dtype = "nf4";
    CHECK_OK(hil_plan_open(&r, &options, form, NULL));
    const hil_plan_row *base = find_row(r, "base weights (nf4)");
    const hil_plan_row *weights = find_row(r, "adapter weights");
    const hil_plan_row *states = find_row(r, "adapter optimizer states");
    const hil_plan_row *gradients = find_row(r, "adapter gradients");
    CHECK(base && weights && states && gradients && find_row(r, "base weights (fp32)"));
    CHECK(!find_row(r, "weights") && !find_row(r, "first moments"));
    CHECK(weights->device + weights->host + weights->disk ==
          gradients->device + gradients->host + gradients->disk);
    CHECK(2 * (weights->device + weights->host + weights->disk) ==
          states->device + states->host + states->disk);
    double all = (double)(r->states.device + r->states.host + r->states.disk);
    CHECK_NEAR(r->analysis.bytes_per_parameter, all / (double)r->parameters,
               0.01 * all / (double)r->parameters);
    CHECK(strstr(r->json, "\"name\": \"adapter gradients\""));
    hil_plan_close(r);
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
    options.memory.device = options.memory.host = 4 << 20;
    check_adapter(options, &form);
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
