/* chat_model.h - a tiny model with random weights, a tokenizer and a chat template. */
#ifndef HIL_TESTS_CHAT_MODEL_H
#define HIL_TESTS_CHAT_MODEL_H

#include "copy.h"
#include "job.h"

/* Renders as "[user]hello\n[assistant]" where a reply is wanted. */
#define CHAT_TEMPLATE                                                                              \
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}\n{% endfor %}"                           \
    "{% if add_generation_prompt %}[assistant]{% endif %}"

/* Writes the model to the test's folder `name`; `out` is its path. No id ends a text. */
static inline void chat_model_make(job_place *place, const char *name, int positions,
                                   char out[JOB_PATH])
{
    char config[512], path[JOB_PATH], source[JOB_PATH], file[JOB_PATH];
    int size = snprintf(config, sizeof config,
                        "{\"model_type\": \"gpt2\", \"vocab_size\": 421, \"n_positions\": %d, "
                        "\"n_embd\": 32, \"n_layer\": 2, \"n_head\": 2, "
                        "\"initializer_range\": 0.5}",
                        positions);
    snprintf(file, sizeof file, "%s.json", name);
    CHECK_OK(hil_file_write(job_path(place, source, file), config, (size_t)size));
    hil_train_options options = job_options(place, "gpt2", job_path(place, out, name));
    options.model = source;
    options.seq = 8;
    options.steps = 1;
    options.lr = 0;
    job_train(&options);
    CHECK_OK(hil_path_join(path, out, "tokenizer.json"));
    CHECK_OK(copy_file(HIL_TESTS "/golden/tokenizers/gpt2/tokenizer.json", path));
    CHECK_OK(hil_path_join(path, out, "chat_template.jinja"));
    CHECK_OK(hil_file_write(path, CHAT_TEMPLATE, sizeof CHAT_TEMPLATE - 1));
}

#endif
