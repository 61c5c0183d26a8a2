/* torch_weights.h - a dictionary of tensors in a file of torch.save, such as pytorch_model.bin. */
#ifndef HIL_FORMAT_TORCH_WEIGHTS_H
#define HIL_FORMAT_TORCH_WEIGHTS_H

#include "format/safetensors.h"

/* The tensors of the dictionary under their keys; other values in it are left out. Tensors may
   share bytes. Data is read where and when it is asked for. Nothing of the pickle is executed.
   Refuses tensors that are not contiguous. */
hil_status hil_torch_weights_open(hil_safetensors **out, const char *path);
/* The same from memory, which is borrowed until close; `what` names the source in errors. */
hil_status hil_torch_weights_parse(hil_safetensors **out, const char *bytes, size_t size,
                                   const char *what);

#endif
