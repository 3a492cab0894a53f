/** What `scripts/build.js` has made of `src/browser`. */
export interface BuiltFile {
  /** With a part that changes with its content. */
  readonly name: string
  readonly type: string
  /** Compressed with gzip, in base64. */
  readonly gzip: string
}

export declare const html: BuiltFile
export declare const files: readonly BuiltFile[]
