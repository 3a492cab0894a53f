/** Returns the environment of a process whose wall clock follows the file, such as `+3600` for an hour ahead. */
export function faketimeEnvironment(library: string, file: string): Record<string, string> {
  return {
    LD_PRELOAD: library,
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
    FAKETIME_NO_CACHE: '1',
  }
}
