import { serveSettings } from '../serve/settings.ts'

export const restoreSettings = { data: serveSettings.data }
