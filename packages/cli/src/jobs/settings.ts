import { json, storeSettings } from '../shared/arguments/store-settings.ts'

export const jobsSettings = { ...storeSettings, json }
