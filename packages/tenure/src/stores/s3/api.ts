import type { SendOptions } from '../aws/client.ts'

interface S3Location {
  Bucket: string
  Key: string
}

/** The methods of the `S3` client in `@aws-sdk/client-s3` that the store calls. */
export interface S3Api {
  getObject(
    input: S3Location,
    options: SendOptions,
  ): Promise<{
    readonly Body?: { transformToString(): Promise<string> } | undefined
    readonly ETag?: string | undefined
  }>
  putObject(
    input: S3Location & { Body: string; ContentType: string; IfMatch?: string; IfNoneMatch?: string },
    options: SendOptions,
  ): Promise<{ readonly ETag?: string | undefined }>
  listObjectsV2(
    input: { Bucket: string; Prefix: string; Delimiter: string; MaxKeys: number; StartAfter?: string },
    options: SendOptions,
  ): Promise<{
    readonly Contents?: readonly { readonly Key?: string | undefined }[] | undefined
    readonly CommonPrefixes?: readonly { readonly Prefix?: string | undefined }[] | undefined
    readonly IsTruncated?: boolean | undefined
  }>
  getBucketVersioning(
    input: { Bucket: string },
    options: SendOptions,
  ): Promise<{ readonly Status?: string | undefined }>
  getBucketLifecycleConfiguration(
    input: { Bucket: string },
    options: SendOptions,
  ): Promise<{ readonly Rules?: readonly LifecycleRule[] | undefined }>
}

/** A rule by which a bucket deletes or moves objects, limited to the fields that this store reads. */
export interface LifecycleRule {
  readonly ID?: string | undefined
  readonly Status?: string | undefined
  /** The older form of `Filter`. */
  readonly Prefix?: string | undefined
  readonly Filter?:
    | {
        readonly Prefix?: string | undefined
        readonly Tag?: object | undefined
        readonly ObjectSizeGreaterThan?: number | undefined
        readonly And?:
          | { readonly Prefix?: string | undefined; readonly Tags?: readonly object[] | undefined }
          | undefined
      }
    | undefined
  readonly Expiration?: { readonly Days?: number | undefined; readonly Date?: Date | undefined } | undefined
  readonly NoncurrentVersionExpiration?: object | undefined
  readonly Transitions?: readonly { readonly StorageClass?: string | undefined }[] | undefined
}
