/** The files that `scripts/build.js` builds from `src/browser`. */
export interface BuiltFile {
  /** The name contains a hash of the content. */
  readonly name: string
  readonly type: string
  /** The content, compressed with gzip and encoded in base64. */
  readonly gzip: string
}

export declare const html: BuiltFile
export declare const files: readonly BuiltFile[]
