/* cooperative_groups.h - in place of CUDA's: clusters of blocks are not emulated. */
