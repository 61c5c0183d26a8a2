/* metrics.c - appends lines to OUT/metrics.jsonl; cuts it back on resume. */
#include "run/metrics.h"

#include "base/json.h"
#include "io/file.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* Whether `line` is complete and of a step up to `step`; notes the last evaluation. */
static bool take_line(hil_metrics *metrics, const char *line, size_t size, int64_t step)
{
    json_t *object;
    int64_t of = -1;
    if (hil_json_parse(line, size, "metrics.jsonl", &object) != HIL_OK) return false;
    bool take =
        hil_json_int(object, "step", "metrics.jsonl", &of) == HIL_OK && of >= 0 && of <= step;
    const json_t *loss = json_object_get(object, "eval_loss");
    if (take && loss) {
        metrics->evaluated = of;
        metrics->eval_loss = json_number_value(loss);
    }
    json_decref(object);
    return take;
}

/* Rewrites the file with only the complete lines of steps up to `step`. */
static hil_status remove_later_lines(hil_metrics *metrics, const char *path, int64_t step)
{
    hil_bytes content;
    hil_text kept = {0};
    if (!hil_file_exists(path)) return HIL_OK;
    HIL_TRY(hil_bytes_read(&content, path));
    hil_status status = HIL_OK;
    for (size_t at = 0; at < content.size && status == HIL_OK;) {
        const char *end = memchr(content.data + at, '\n', content.size - at);
        if (!end) break;
        size_t size = (size_t)(end - (content.data + at)) + 1;
        if (take_line(metrics, content.data + at, size, step))
            status = hil_text_add(&kept, content.data + at, size);
        at += size;
    }
    if (status == HIL_OK) status = hil_file_write(path, kept.data ? kept.data : "", kept.size);
    hil_bytes_free(&content);
    hil_text_free(&kept);
    return status;
}

hil_status hil_metrics_open(hil_metrics *metrics, const char *path, int64_t step)
{
    *metrics = (hil_metrics){.evaluated = -1};
    HIL_TRY(remove_later_lines(metrics, path, step));
    metrics->file = fopen(path, "ae");
    if (metrics->file) return HIL_OK;
    return hil_fail(HIL_ERR_IO, "cannot write %s: %s", path, strerror(errno));
}

/* Appends the line that was built, and shows it to the reporter. */
static hil_status write_line(hil_metrics *metrics)
{
    const hil_text *line = &metrics->line;
    if (fprintf(metrics->file, "%s\n", line->data) < 0 || fflush(metrics->file) != 0)
        return hil_fail(HIL_ERR_IO, "cannot write metrics.jsonl: %s", strerror(errno));
    hil_reporter_line(metrics->reporter, line->data, line->size);
    return HIL_OK;
}

static hil_status print_account(hil_text *line, const hil_step_account *a)
{
    const hil_wait_seconds *w = &a->wait_seconds;
    return hil_text_print(
        line,
        ", \"device_peak\": %llu, \"host_peak\": %llu, \"disk_peak\": %llu, "
        "\"disk_read_bytes\": %llu, \"disk_written_bytes\": %llu, "
        "\"to_device_bytes\": %llu, \"to_host_bytes\": %llu, "
        "\"gathered_bytes\": %llu, \"reduced_bytes\": %llu, "
        "\"wait_seconds\": {\"weights\": %.9g, \"update\": %.9g, "
        "\"activations\": %.9g, \"gradients\": %.9g, \"memory\": %.9g}, "
        "\"exposed_update_seconds\": %.9g, \"skipped_bytes\": %llu}",
        (unsigned long long)a->device_peak, (unsigned long long)a->host_peak,
        (unsigned long long)a->disk_peak, (unsigned long long)a->disk_read_bytes,
        (unsigned long long)a->disk_written_bytes, (unsigned long long)a->to_device_bytes,
        (unsigned long long)a->to_host_bytes, (unsigned long long)a->gathered_bytes,
        (unsigned long long)a->reduced_bytes, w->weights, w->update, w->activations, w->gradients,
        w->memory, a->exposed_update_seconds, (unsigned long long)a->skipped_bytes);
}

/* JSON cannot express NaN and infinity: they become null. */
static const char *number(char out[32], double value)
{
    snprintf(out, 32, isfinite(value) ? "%.17g" : "null", value);
    return out;
}

/* The numbers of pairs of answers; nothing where there are none. */
static hil_status print_preferences(hil_text *line, const char *prefix, const hil_preferences *p)
{
    hil_preference_value each[HIL_PREFERENCE_VALUES];
    char value[32];
    if (!p->pairs) return HIL_OK;
    int count = hil_preference_values(p, each);
    HIL_TRY(hil_text_print(line, ", \"%s%s\": %lld", prefix,
                           p->kind == HIL_PREFER_KTO ? "answers" : "pairs", (long long)p->pairs));
    for (int i = 0; i < count; ++i)
        HIL_TRY(hil_text_print(line, ", \"%s%s\": %s", prefix, each[i].name,
                               number(value, each[i].value)));
    return HIL_OK;
}

hil_status hil_metrics_step(hil_metrics *metrics, const hil_step_report *r)
{
    char loss[32], norm[32];
    hil_text *line = &metrics->line;
    if (!metrics->file) return HIL_OK;
    line->size = 0;
    HIL_TRY(hil_text_print(line,
                           "{\"step\": %lld, \"loss\": %s, \"grad_norm\": %s, \"lr\": %.17g, "
                           "\"tokens\": %lld, \"learned\": %lld, \"seconds\": %.9g, "
                           "\"tokens_per_second\": %.9g, \"ranks\": %d",
                           (long long)r->step, number(loss, r->loss), number(norm, r->grad_norm),
                           r->lr, (long long)r->tokens, (long long)r->learned, r->seconds,
                           r->tokens_per_second, r->ranks));
    if (r->loss_scale)
        HIL_TRY(hil_text_print(line, ", \"loss_scale\": %lld, \"skipped\": %lld",
                               (long long)r->loss_scale, (long long)r->skipped));
    if (r->aux_loss > 0)
        HIL_TRY(hil_text_print(line, ", \"aux_loss\": %s", number(loss, r->aux_loss)));
    if (metrics->router_z > 0)
        HIL_TRY(hil_text_print(line, ", \"router_z_loss\": %s", number(loss, metrics->router_z)));
    HIL_TRY(print_preferences(line, "", &r->preferences));
    HIL_TRY(print_account(line, &r->account));
    return write_line(metrics);
}

hil_status hil_metrics_eval(hil_metrics *metrics, int64_t step, const hil_step_result *result,
                            const char *losses)
{
    double loss = result->loss;
    hil_text *line = &metrics->line;
    metrics->evaluated = step;
    metrics->eval_loss = loss;
    if (!metrics->file) return HIL_OK;
    line->size = 0;
    HIL_TRY(hil_text_print(line, "{\"step\": %lld, \"eval_loss\": %.17g%s%s", (long long)step, loss,
                           losses ? ", \"eval_losses\": " : "", losses ? losses : ""));
    if (result->aux_loss > 0)
        HIL_TRY(hil_text_print(line, ", \"eval_aux_loss\": %.17g", result->aux_loss));
    HIL_TRY(print_preferences(line, "eval_", &result->preferences));
    HIL_TRY(hil_text_print(line, "}"));
    return write_line(metrics);
}

hil_status hil_metrics_sample(hil_metrics *metrics, int64_t step, const char *prompt,
                              const char *text, double seconds)
{
    hil_text *line = &metrics->line;
    if (!metrics->file) return HIL_OK;
    line->size = 0;
    HIL_TRY(hil_text_print(line, "{\"step\": %lld, \"sample_prompt\": ", (long long)step));
    HIL_TRY(hil_text_quote(line, prompt));
    HIL_TRY(hil_text_print(line, ", \"sample\": "));
    HIL_TRY(hil_text_quote(line, text));
    HIL_TRY(hil_text_print(line, ", \"sample_seconds\": %.9g}", seconds));
    return write_line(metrics);
}

hil_status hil_metrics_sync(hil_metrics *metrics)
{
    if (!metrics->file || fsync(fileno(metrics->file)) == 0) return HIL_OK;
    return hil_fail(HIL_ERR_IO, "cannot sync metrics.jsonl: %s", strerror(errno));
}

void hil_metrics_close(hil_metrics *metrics)
{
    if (metrics->file) fclose(metrics->file);
    metrics->file = NULL;
    hil_text_free(&metrics->line);
}
