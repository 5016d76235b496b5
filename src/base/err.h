// SPDX-License-Identifier: Apache-2.0
// Every error alula can answer with: a negative code, the process's exit status, and the sentence a user needs.
#ifndef AL_BASE_ERR_H
#define AL_BASE_ERR_H

// X(NAME, negative code, exit status, sentence)
// Exit statuses: 0 fine, 1 failed, 2 bad usage or config, 3 finding raised (watch --fail-on), 4 no permission,
// 5 no such object, 6 bad input file, 9 no driver or GPU, 12 library missing, 130 interrupted.
#define AL_ERRORS(X)                                                                                                   \
    X(NOMEM, -1, 1, "out of memory")                                                                                   \
    X(INVALID, -2, 2, "invalid argument")                                                                              \
    X(CONFIG, -3, 2, "the configuration is not valid")                                                                 \
    X(DENIED, -4, 4, "permission denied")                                                                              \
    X(NOENT, -5, 5, "no such file, process or device")                                                                 \
    X(FORMAT, -6, 6, "the input is not in the expected format")                                                        \
    X(IO, -7, 1, "reading or writing failed")                                                                          \
    X(TOOBIG, -8, 6, "the input is larger than alula accepts")                                                         \
    X(NODRIVER, -9, 9, "no NVIDIA driver answers on this machine")                                                     \
    X(NOGPU, -10, 9, "no GPU found")                                                                                   \
    X(NOLIB, -11, 12, "libnvidia-ml.so.1 was not found")                                                               \
    X(NOSYM, -12, 12, "the driver library lacks a function that alula cannot do without")                              \
    X(LOST, -13, 9, "the GPU is lost")                                                                                 \
    X(TIMEOUT, -14, 1, "the driver did not answer in time")                                                            \
    X(UNSUPPORTED, -15, 1, "not supported here")                                                                       \
    X(AGAIN, -16, 1, "nothing new yet")                                                                                \
    X(END, -17, 0, "end of the recording")                                                                             \
    X(GONE, -18, 5, "the process is gone")                                                                             \
    X(MISMATCH, -19, 9, "the driver and its library are of different versions")

enum al_error {
#define X(name, code, status, text) AL_E_##name = code,
    AL_ERRORS(X)
#undef X
};

// The sentence for a code (static storage; never NULL; 0 gives "ok").
const char *al_error_text(int error);
// The exit status the command line answers with for a code (0 for 0).
int al_error_exit_status(int error);

#endif
