/* cuda_pipeline.h - in place of CUDA's: emulator.h has what is used of it. */
