/* mixture.h - a mixture of experts in place of a block's MLP. */
#ifndef HIL_MODEL_MIXTURE_H
#define HIL_MODEL_MIXTURE_H

#include "model/build.h"

typedef struct hil_mixture {
    hil_param *router;                                         /* NULL: the layer has an MLP */
    hil_param *gate, *up, *down;                               /* of the first expert */
    hil_param *gate_up;                                        /* both in one; NULL: they are two */
    hil_param *router_bias, *gate_bias, *up_bias, *down_bias;  /* NULL: there are none */
    hil_param *shared_gate, *shared_up, *shared_down, *shared; /* NULL: there is none */
    hil_param *shared_gate_up;                                 /* both in one; NULL: they are two */
    hil_param *latent_down, *latent_up; /* NULL: experts read what the layer reads */
    hil_param *factors;                 /* of the weights of each expert; NULL: none */
    hil_route_options route;
    hil_activation activation;
    double alpha, limit; /* of the clamped SwiGLU; limit 0: plain */
    double cap;          /* of the router's logits; 0: none */
    bool early;          /* weights multiply what experts get */
    bool balanced;       /* the auxiliary loss is wanted */
    bool later;          /* an earlier layer is a mixture, too */
    double router_z;     /* coefficient of hil_router_z_loss; 0: none */
    int64_t layers;      /* how many are mixtures */
} hil_mixture;

/* How many of the layers before layer n are mixtures. */
int64_t hil_mixture_before(const hil_config *config, int64_t n);
/* Registers the parameters of layer n, if it is a mixture. */
hil_status hil_mixture_build(hil_model *model, const hil_config *config, int64_t n,
                             hil_mixture *out);
/* Chooses experts. For the auxiliary loss, how much they were used so far goes from `in` to `out`.
 */
hil_status hil_mixture_route(hil_tape *t, const hil_mixture *mixture, hil_value *x,
                             const hil_values *in, hil_values *out, hil_routing *routing);
/* *y = residual + the mixture of x; `residual` may be NULL. */
hil_status hil_mixture_run(hil_tape *t, const hil_mixture *mixture, hil_value *x,
                           const hil_routing *routing, hil_value *residual, hil_value **y);
/* Instead of hil_mixture_route in a layer with an MLP: passes on how much they were used. */
hil_status hil_mixture_pass(const hil_mixture *mixture, const hil_values *in, hil_values *out);

#endif
