/* config.c - reads options from a JSON file whose keys are their names. */
#include "cli/options.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define CONFIG_BYTES_MAX ((size_t)16 << 20)

static hil_status read_whole(const char *path, hil_text *text)
{
    hil_status status = HIL_OK;
    char piece[4096];
    FILE *file = fopen(path, "rb");
    if (!file) return hil_fail(HIL_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    size_t size;
    while ((size = fread(piece, 1, sizeof piece, file)) > 0) {
        HIL_TRY_DONE(hil_text_add(text, piece, size));
        if (text->size > CONFIG_BYTES_MAX)
            HIL_TRY_DONE(hil_fail(HIL_ERR_USAGE, "%s is too large for a file of options", path));
    }
    if (ferror(file))
        HIL_TRY_DONE(hil_fail(HIL_ERR_IO, "cannot read %s: %s", path, strerror(errno)));
done:
    fclose(file);
    return status;
}

static hil_status wrong_type(const char *label, const char *expected, const json_t *value)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number",  [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null"};
    return hil_fail(HIL_ERR_USAGE, "%s must be %s, not %s", label, expected,
                    names[json_typeof(value)]);
}

static hil_status set_json_list(hil_parsed *parsed, const hil_option *option, const char *label,
                                const json_t *array)
{
    size_t i;
    json_t *item;
    if (json_array_size(array) == 0) return hil_fail(HIL_ERR_USAGE, "%s: the list is empty", label);
    json_array_foreach(array, i, item)
    {
        if (!json_is_string(item)) return wrong_type(label, "an array of strings", item);
        if (json_string_length(item) == 0)
            return hil_fail(HIL_ERR_USAGE, "%s: a name in the list is empty", label);
        HIL_TRY(option->kind == HIL_OPTION_DISK
                    ? hil_option_set_text(parsed, option, label, json_string_value(item))
                    : hil_option_add_item(parsed, option, json_string_value(item),
                                          json_string_length(item)));
    }
    return HIL_OK;
}

static hil_status set_json_whole(hil_parsed *parsed, const hil_option *option, const char *label,
                                 const json_t *value)
{
    int64_t number;
    if (json_is_integer(value)) {
        number = json_integer_value(value);
    } else {
        double real = json_is_real(value) ? json_real_value(value) : 0.5;
        if (!(fabs(real) <= 0x1p53) || real != trunc(real)) {
            if (json_is_real(value))
                return hil_fail(HIL_ERR_USAGE, "%s must be a whole number, not %g", label, real);
            return wrong_type(label, "a whole number", value);
        }
        number = (int64_t)real;
    }
    if (option->kind == HIL_OPTION_WHOLE)
        return hil_option_set_whole(parsed, option, label, number);
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)number);
    return hil_option_set_text(parsed, option, label, text);
}

static hil_status set_json(hil_parsed *parsed, const hil_option *option, const char *label,
                           const json_t *value)
{
    switch (option->kind) {
    case HIL_OPTION_ON:
    case HIL_OPTION_OFF:
        if (!json_is_boolean(value)) return wrong_type(label, "true or false", value);
        if (json_is_true(value)) hil_option_set_flag(parsed, option);
        return HIL_OK;
    case HIL_OPTION_REAL:
        if (!json_is_number(value)) return wrong_type(label, "a number", value);
        return hil_option_set_real(parsed, option, label, json_number_value(value));
    case HIL_OPTION_SIZE:
    case HIL_OPTION_MEMORY:
    case HIL_OPTION_DEVICE:
        if (json_is_string(value)) break;
        return set_json_whole(parsed, option, label, value);
    case HIL_OPTION_WHOLE:
    case HIL_OPTION_SEED:
        return set_json_whole(parsed, option, label, value);
    case HIL_OPTION_LIST:
    case HIL_OPTION_DISK:
        if (json_is_array(value)) return set_json_list(parsed, option, label, value);
        if (!json_is_string(value)) return wrong_type(label, "a string or an array", value);
        break;
    default:
        if (!json_is_string(value)) return wrong_type(label, "a string", value);
    }
    return hil_option_set_text(parsed, option, label, json_string_value(value));
}

/* A flag on the command line overrides the same option of the file, and the options it excludes. */
static bool overruled(const hil_parsed *parsed, const hil_option *option, const bool *flags)
{
    const hil_command *command = parsed->command;
    if (flags[option - command->option]) return true;
    for (size_t i = 0; i < command->count; ++i)
        if (flags[i] && option->rival && strcmp(option->rival, command->option[i].name) == 0)
            return true;
    return false;
}

hil_status hil_options_read_config(hil_parsed *parsed, const char *path)
{
    const hil_command *command = parsed->command;
    hil_status status = HIL_OK;
    hil_text text = {0}, label = {0}, where = {0};
    bool flags[HIL_OPTIONS_MAX], here[HIL_OPTIONS_MAX] = {false};
    memcpy(flags, parsed->seen, sizeof flags);
    HIL_TRY_DONE(read_whole(path, &text));
    HIL_TRY_DONE(hil_text_print(&where, "%s: ", path));
    status = hil_json_parse(text.data ? text.data : "", text.size, path, &parsed->config);
    HIL_TRY_DONE(status == HIL_ERR_INPUT ? HIL_ERR_USAGE : status);
    if (!json_is_object(parsed->config))
        HIL_TRY_DONE(wrong_type(path, "a JSON object of options", parsed->config));
    const char *key;
    json_t *value;
    json_object_foreach(parsed->config, key, value)
    {
        const hil_option *option;
        HIL_TRY_DONE(hil_option_find(command, key, where.data, &option));
        size_t i = (size_t)(option - command->option);
        label.size = 0;
        HIL_TRY_DONE(hil_text_print(&label, "%s: \"%s\"", path, key));
        if (option->kind == HIL_OPTION_CONFIG)
            HIL_TRY_DONE(hil_fail(HIL_ERR_USAGE, "%s cannot be given in a file", label.data));
        if (here[i]) HIL_TRY_DONE(hil_fail(HIL_ERR_USAGE, "%s is given twice", label.data));
        here[i] = true;
        if (overruled(parsed, option, flags)) continue;
        HIL_TRY_DONE(set_json(parsed, option, label.data, value));
        parsed->seen[i] = !json_is_false(value);
    }
done:
    hil_text_free(&text);
    hil_text_free(&label);
    hil_text_free(&where);
    return status;
}
