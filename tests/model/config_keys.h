/* config_keys.h - configs of a small model with some keys more, for tests of what keys mean. */
#ifndef HIL_TESTS_CONFIG_KEYS_H
#define HIL_TESTS_CONFIG_KEYS_H

#include "model/config/config.h"
#include "check.h"

#define SIZES                                                                                      \
    "\"vocab_size\":96,\"hidden_size\":64,\"intermediate_size\":160,\"num_hidden_layers\":2,"      \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2"

static inline hil_config parse_text(const char *json)
{
    hil_config config;
    CHECK_OK(hil_config_parse(&config, json, strlen(json), "t"));
    return config;
}

static inline void refuse_text(const char *json, const char *words)
{
    hil_config config;
    CHECK_FAILS(hil_config_parse(&config, json, strlen(json), "t"), HIL_ERR_INPUT, words);
}

static inline void make(char out[2048], const char *type, const char *keys)
{
    snprintf(out, 2048, "{\"model_type\":\"%s\"," SIZES "%s}", type, keys);
}

static inline hil_config parse(const char *type, const char *keys)
{
    char json[2048];
    make(json, type, keys);
    return parse_text(json);
}

static inline void refuse(const char *type, const char *keys, const char *words)
{
    char json[2048];
    make(json, type, keys);
    refuse_text(json, words);
}

/* With as many heads of keys as of queries. */
static inline void make_latent(char out[2048], const char *type, const char *keys)
{
    snprintf(
        out, 2048,
        "{\"model_type\":\"%s\",\"vocab_size\":96,\"hidden_size\":64,\"intermediate_size\":160,"
        "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":4%s}",
        type, keys);
}

static inline hil_config parse_latent(const char *type, const char *keys)
{
    char json[2048];
    make_latent(json, type, keys);
    return parse_text(json);
}

static inline void refuse_latent(const char *type, const char *keys, const char *words)
{
    char json[2048];
    make_latent(json, type, keys);
    refuse_text(json, words);
}

#endif
