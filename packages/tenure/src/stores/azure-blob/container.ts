/** The methods of a `ContainerClient` of `@azure/storage-blob` that the store calls. */
export interface AzureContainer {
  readonly containerName: string
  getBlockBlobClient(blobName: string): AzureBlob
  listBlobsByHierarchy(
    delimiter: string,
    options: { prefix: string; abortSignal: AbortSignal },
  ): {
    byPage(input: { maxPageSize: number; continuationToken?: string }): AsyncIterableIterator<{
      readonly continuationToken?: string | undefined
      readonly segment: { readonly blobItems: readonly { readonly name: string }[] }
    }>
  }
  getProperties(options: { abortSignal: AbortSignal }): Promise<AzureContainerProperties>
}

/** The methods of a `BlockBlobClient` that the store calls. */
export interface AzureBlob {
  download(
    offset: undefined,
    count: undefined,
    options: { abortSignal: AbortSignal },
  ): Promise<{
    readonly etag?: string | undefined
    /** Set in Node.js. */
    readonly readableStreamBody?: NodeJS.ReadableStream | undefined
  }>
  upload(
    body: string,
    contentLength: number,
    options: {
      abortSignal: AbortSignal
      conditions: AzureConditions
      blobHTTPHeaders: { blobContentType: string; blobCacheControl: string }
    },
  ): Promise<{ readonly etag?: string | undefined }>
  delete(options: { abortSignal: AbortSignal; conditions: AzureConditions }): Promise<unknown>
}

/** When a write or a removal is allowed. */
export interface AzureConditions {
  ifMatch?: string
  ifNoneMatch?: string
}

/** The settings of a container that this store reads. */
export interface AzureContainerProperties {
  readonly hasImmutabilityPolicy?: boolean | undefined
  readonly hasLegalHold?: boolean | undefined
}
