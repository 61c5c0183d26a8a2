/* peft.h - the config of an adapter as PEFT writes it: adapter_config.json. */
#ifndef HIL_FORMAT_PEFT_H
#define HIL_FORMAT_PEFT_H

#include "base/json.h"
#include "base/text.h"
#include "base/regex.h"

#define HIL_PEFT_CONFIG "adapter_config.json"
#define HIL_PEFT_WEIGHTS "adapter_model.safetensors"
/* The value of target_modules that means every linear layer. */
#define HIL_PEFT_ALL "all-linear"
#define HIL_PEFT_MOST_RANK (1 << 20)
/* Bytes of the longest name. */
#define HIL_PEFT_NAME 384
/* Before the names of all tensors of an adapter folder. */
#define HIL_PEFT_PREFIX "base_model.model."

/* Which biases are trained with the adapter. */
typedef enum hil_peft_bias {
    HIL_PEFT_BIAS_NONE,
    HIL_PEFT_BIAS_ALL,
    HIL_PEFT_BIAS_LORA
} hil_peft_bias;

/* The value for the modules whose names end like the expression says. */
typedef struct hil_peft_pattern {
    hil_regex *regex;
    double value;
} hil_peft_pattern;

/* Owns `root`, from which the lists are borrowed. A module is a layer by its Hugging Face name
   without ".weight": "model.layers.0.self_attn.q_proj". */
typedef struct hil_peft {
    json_t *root;
    int64_t rank;
    double alpha, dropout;
    bool rslora, dora;
    hil_peft_bias bias;
    const json_t *targets;    /* names; or a string: "all-linear" or an expression */
    const json_t *parameters; /* names of parameters, not modules, that are targets; NULL: none */
    const json_t *excluded;   /* the same of modules that are no targets; NULL: none */
    const json_t *saved;      /* modules that are trained whole; NULL: none */
    const json_t *layers;     /* numbers of the layers to adapt; NULL: all */
    /* Expressions over names of modules; owned. */
    hil_regex *target, *exclusion;
    hil_peft_pattern *ranks, *alphas, *layer_names; /* arrays */
    size_t rank_count, alpha_count, layer_name_count;
} hil_peft;

/* A new adapter. Lists are copied. */
typedef struct hil_peft_values {
    const char *base; /* the base model's folder */
    int64_t rank;
    double alpha, dropout;
    bool rslora, dora;
    const char *const *target; /* names of layers; none: all linear layers */
    size_t targets;
    const char *const *save; /* modules to train whole */
    size_t saves;
} hil_peft_values;
/* Copies the values. */
hil_status hil_peft_create(hil_peft *out, const hil_peft_values *values);

/* Reads a config. A key that this version does not honour is refused by its name, unless its value
   says that it is not used. `what` names the source in errors. */
hil_status hil_peft_parse(hil_peft *out, const char *text, size_t size, const char *what);
/* adapter_config.json of a folder. */
hil_status hil_peft_open(hil_peft *out, const char *folder);
void hil_peft_close(hil_peft *peft);

/* Splits "model.norm.weight" into the module "model.norm" and "weight", which is returned. */
const char *hil_peft_module(const char *param, char module[HIL_PEFT_NAME]);
/* Whether all linear layers are targets. */
bool hil_peft_is_all(const hil_peft *peft);
/* Within peft.c: reads the lists and expressions of `root`; frees these; fails because of a key. */
hil_status hil_peft_compile(hil_peft *peft, const char *what);
void hil_peft_release(hil_peft *peft);
hil_status hil_peft_refuse(const char *what, const char *key, const json_t *value);
/* Whether the module gets an adapter, or is trained whole. */
bool hil_peft_is_target(const hil_peft *peft, const char *module);
bool hil_peft_is_saved(const hil_peft *peft, const char *module);
/* Whether a parameter of a module, by its whole name in transformers 5, gets an adapter:
   [Note: adapters of experts]. */
bool hil_peft_is_parameter(const hil_peft *peft, const char *name);
/* Whether `name` in modules_to_save means the module: it, or one that contains it, has a name that
   ends so, after a dot or not. */
bool hil_peft_saves(const char *name, const char *module);
int64_t hil_peft_rank(const hil_peft *peft, const char *module);
/* What the product of the low-rank matrices is multiplied by. */
double hil_peft_scale(const hil_peft *peft, const char *module);

/* The name in an adapter folder of the tensor of a parameter, which is one of the adapter's or one
   of the base's that is trained. */
void hil_peft_tensor_name(const hil_peft *peft, const char *param, char out[HIL_PEFT_NAME]);

/* Replaces the list of targets by `target`, and that of parameters. */
hil_status hil_peft_set_targets(hil_peft *peft, const char *const *target, size_t count);
hil_status hil_peft_set_parameters(hil_peft *peft, const char *const *name, size_t count);
/* A hash of all that the config says, but for the name of its base. */
hil_status hil_peft_key(const hil_peft *peft, uint64_t *out);
/* Appends the text of adapter_config.json. */
hil_status hil_peft_write(const hil_peft *peft, hil_text *out);

#endif
