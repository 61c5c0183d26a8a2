/* layers.h - other numbers of layers for a model that is only planned. */
#ifndef HIL_RUN_LAYERS_H
#define HIL_RUN_LAYERS_H

#include "model/config/config.h"

/* Makes the model one of `layers` layers, whose kinds repeat. */
void hil_layers_repeat(hil_config *config, int64_t layers);
/* Keeps about `fewer` of the layers, at least one of each kind, in their order. stands[i], of as
   many as there were: how many of all layers, which are of its kind, layer i stands for. */
void hil_layers_thin(hil_config *config, int64_t fewer, int64_t *stands);

#endif
