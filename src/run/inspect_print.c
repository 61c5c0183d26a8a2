/* inspect_print.c - hilbert inspect: prints an inspection as a table or a JSON object. */
#include "hilbert/inspect.h"

#include "base/json.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void print_shape(char *out, size_t size, const hil_inspected_tensor *tensor)
{
    size_t used = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < tensor->dims && used < size; ++i)
        used += (size_t)snprintf(out + used, size - used, i ? ", %lld" : "%lld",
                                 (long long)tensor->shape[i]);
    if (used < size) snprintf(out + used, size - used, "]");
}

/* Names come from files: control characters must not reach a terminal. */
static void print_name(FILE *out, const char *name, int width)
{
    int size = 0;
    for (; name[size]; ++size) {
        unsigned char c = (unsigned char)name[size];
        fputc(c < 0x20 || c == 0x7f ? '?' : c, out);
    }
    fprintf(out, "%*s", size < width ? width - size : 0, "");
}

static void print_table(const hil_inspection *x, FILE *out)
{
    char shape[256];
    int width = 4, shape_width = 5;
    for (size_t i = 0; i < x->tensors; ++i) {
        print_shape(shape, sizeof shape, &x->tensor[i]);
        if ((int)strlen(x->tensor[i].name) > width) width = (int)strlen(x->tensor[i].name);
        if ((int)strlen(shape) > shape_width) shape_width = (int)strlen(shape);
    }
    fprintf(out, "%-*s  %-7s  %-*s  %13s\n", width, "name", "dtype", shape_width, "shape",
            "elements");
    for (size_t i = 0; i < x->tensors; ++i) {
        print_shape(shape, sizeof shape, &x->tensor[i]);
        print_name(out, x->tensor[i].name, width);
        fprintf(out, "  %-7s  %-*s  %13lld\n", x->tensor[i].dtype, shape_width, shape,
                (long long)x->tensor[i].elements);
    }
}

/* Prints options with "--". Other facts that a resume must match have names of several words. */
static void print_options(const hil_inspected_run *run, FILE *out)
{
    json_t *options = run->options ? json_loads(run->options, 0, NULL) : NULL, *value;
    const char *name;
    json_object_foreach(options, name, value)
    {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        fprintf(out, "  %s%s %s\n", strchr(name, ' ') ? "" : "--", name, text ? text : "?");
        free(text);
    }
    json_decref(options);
}

static void print_run(const hil_inspected_run *run, FILE *out)
{
    char bytes[32];
    for (size_t i = 0; i < run->files; ++i)
        fprintf(out, "%s: %s in %zu piece%s\n", run->file[i].name,
                hil_text_bytes(bytes, run->file[i].bytes), run->file[i].pieces,
                run->file[i].pieces == 1 ? "" : "s");
    fprintf(out, "step %lld, %lld tokens, %lld rank%s, %s\n", (long long)run->step,
            (long long)run->tokens, (long long)run->ranks, run->ranks == 1 ? "" : "s",
            hil_text_bytes(bytes, run->bytes));
    print_options(run, out);
}

static void print_config(const hil_inspected_config *c, FILE *out)
{
    fprintf(out,
            "%s: %lld layers, hidden %lld, intermediate %lld, %lld heads (%lld for keys and "
            "values) of %lld, vocabulary %lld, up to %lld tokens%s\n",
            c->model_type, (long long)c->layers, (long long)c->hidden, (long long)c->intermediate,
            (long long)c->heads, (long long)c->kv_heads, (long long)c->head_dim,
            (long long)c->vocab, (long long)c->max_positions, c->tied ? ", tied embeddings" : "");
}

static void print_text(const hil_inspection *x, FILE *out)
{
    static const char *const what[] = {"weights, fp32", "first moments, of the same shapes",
                                       "second moments, of the same shapes"};
    char bytes[32];
    print_table(x, out);
    fprintf(out, "%zu tensor%s, %lld parameters, %llu bytes (%s)\n", x->tensors,
            x->tensors == 1 ? "" : "s", (long long)x->parameters, (unsigned long long)x->bytes,
            hil_text_bytes(bytes, x->bytes));
    for (size_t i = 0; i < x->states; ++i)
        fprintf(out, "%s.safetensors: %s, %s\n", x->state[i].name, what[i],
                hil_text_bytes(bytes, x->state[i].bytes));
    if (x->run) print_run(x->run, out);
    if (x->run_error) fprintf(out, "%s\n", x->run_error);
    if (x->config) print_config(x->config, out);
    if (x->config_error) fprintf(out, "%s\n", x->config_error);
}

static json_t *tensors_json(const hil_inspection *x)
{
    json_t *list = json_array();
    for (size_t i = 0; i < x->tensors; ++i) {
        const hil_inspected_tensor *t = &x->tensor[i];
        json_t *shape = json_array();
        for (int d = 0; d < t->dims; ++d) json_array_append_new(shape, json_integer(t->shape[d]));
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:o, s:I, s:I}", "name", t->name, "dtype",
                                        t->dtype, "shape", shape, "elements",
                                        (json_int_t)t->elements, "bytes", (json_int_t)t->bytes));
    }
    return list;
}

static json_t *states_json(const hil_inspection *x)
{
    json_t *object = json_object();
    for (size_t i = 0; i < x->states; ++i)
        json_object_set_new(object, x->state[i].name, json_integer((json_int_t)x->state[i].bytes));
    return object;
}

static json_t *run_json(const hil_inspected_run *run)
{
    json_t *files = json_object();
    for (size_t i = 0; i < run->files; ++i)
        json_object_set_new(files, run->file[i].name,
                            json_pack("{s:I, s:I}", "bytes", (json_int_t)run->file[i].bytes,
                                      "pieces", (json_int_t)run->file[i].pieces));
    json_t *options = run->options ? json_loads(run->options, 0, NULL) : json_null();
    return json_pack("{s:I, s:I, s:I, s:I, s:o, s:o}", "step", (json_int_t)run->step, "tokens",
                     (json_int_t)run->tokens, "ranks", (json_int_t)run->ranks, "bytes",
                     (json_int_t)run->bytes, "options", options, "files", files);
}

static json_t *config_json(const hil_inspected_config *c)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "model_type",
                     c->model_type, "layers", (json_int_t)c->layers, "hidden",
                     (json_int_t)c->hidden, "intermediate", (json_int_t)c->intermediate, "heads",
                     (json_int_t)c->heads, "kv_heads", (json_int_t)c->kv_heads, "head_dim",
                     (json_int_t)c->head_dim, "vocab", (json_int_t)c->vocab, "max_positions",
                     (json_int_t)c->max_positions, "tied", (int)c->tied);
}

/* Adds the members. A value that could not be allocated is NULL, so setting it fails. */
static bool fill_json(json_t *root, const hil_inspection *x)
{
    int failed = json_object_set_new(root, "tensors", tensors_json(x));
    if (x->states) failed |= json_object_set_new(root, "states", states_json(x));
    if (x->run) failed |= json_object_set_new(root, "checkpoint", run_json(x->run));
    if (x->run_error)
        failed |=
            json_object_set_new(root, "checkpoint", json_pack("{s:s}", "error", x->run_error));
    failed |= json_object_set_new(root, "total",
                                  json_pack("{s:I, s:I, s:I}", "tensors", (json_int_t)x->tensors,
                                            "parameters", (json_int_t)x->parameters, "bytes",
                                            (json_int_t)x->bytes));
    if (x->config) failed |= json_object_set_new(root, "config", config_json(x->config));
    if (x->config_error)
        failed |= json_object_set_new(root, "config", json_pack("{s:s}", "error", x->config_error));
    return !failed && json_array_size(json_object_get(root, "tensors")) == x->tensors;
}

static hil_status print_json(const hil_inspection *x, FILE *out)
{
    json_t *root = json_object();
    hil_status status = HIL_OK;
    if (fill_json(root, x)) {
        json_dumpf(root, out, JSON_COMPACT);
        fputc('\n', out);
    } else {
        status = hil_fail(HIL_ERR_MEMORY, "no memory for the list of tensors");
    }
    json_decref(root);
    return status;
}

hil_status hil_inspect(const char *path, bool json, FILE *out)
{
    hil_inspection *x;
    hil_status status = HIL_OK;
    HIL_TRY(hil_inspect_open(&x, path));
    if (json)
        status = print_json(x, out);
    else
        print_text(x, out);
    hil_inspect_close(x);
    HIL_TRY(status);
    if (fflush(out) != 0 || ferror(out))
        return hil_fail(HIL_ERR_IO, "cannot write the output: %s", strerror(errno));
    return HIL_OK;
}
