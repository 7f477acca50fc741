// Stored access policies, service properties, and the retention and indexes of tables, which the protocol writes as
// simple XML.

/** @typedef {{id: string, start: string, expiry: string, permissions: string}} StoredPolicy */
/** @typedef {{enabled: boolean, days: number}} Retention */
/**
 * The time after which entities expire, counted from the time in a property, or from the Timestamp if it is "".
 * @typedef {{property: string, seconds: number}} TableRetention
 */
/** @typedef {{property: string, isReady: boolean}} TableIndex */
/** @typedef {{read: boolean, write: boolean, delete: boolean, retention: Retention}} Logging */
/** @typedef {{enabled: boolean, includeApis: boolean, retention: Retention}} Metrics */
/**
 * @typedef {{origins: string, methods: string, headers: string, exposedHeaders: string, maxAgeSeconds: number}} CorsRule
 */
/** @typedef {{logging: Logging, hourMetrics: Metrics, minuteMetrics: Metrics, cors: CorsRule[]}} ServiceProperties */
/** @typedef {{name: string, text: string, children: XmlElement[]}} XmlElement */

const TOKEN = /<\?[^]*?\?>|<!--[^]*?-->|<(\/?)([\w:.-]+)[^>]*?(\/?)>|([^<]+)/g;
/** @type {Record<string, string>} */
const ENTITIES = { lt: "<", gt: ">", amp: "&", quot: '"', apos: "'" };

/**
 * Returns the root element of a document. Attributes are ignored, because none of them matter here.
 * @param {string} text
 * @returns {XmlElement}
 */
export function parseXml(text) {
  /** @type {XmlElement} */
  const document = { name: "", text: "", children: [] };
  const open = [document];
  for (const [, isEnd, name, isEmpty, content] of text.matchAll(TOKEN)) {
    const element = open.at(-1) ?? document;
    if (content !== undefined) {
      element.text += content.replace(/&(#x?[\da-f]+|\w+);/gi, (_all, entity) => character(entity));
    } else if (name && isEnd) {
      open.pop();
    } else if (name) {
      const child = { name, text: "", children: [] };
      element.children.push(child);
      if (!isEmpty) {
        open.push(child);
      }
    }
  }
  return document.children[0] ?? document;
}

/** @param {string} entity */
function character(entity) {
  if (!entity.startsWith("#")) {
    return ENTITIES[entity] ?? "";
  }
  const digits = entity.slice(1);
  const code = /^x/i.test(digits) ? parseInt(digits.slice(1), 16) : parseInt(digits, 10);
  return code <= 0x10ffff ? String.fromCodePoint(code) : "";
}

/**
 * @param {XmlElement | undefined} element
 * @param {string} name
 */
function child(element, name) {
  return element?.children.find((child) => child.name === name);
}

/**
 * Returns the text of a child element, or "" if there is no such element.
 * @param {XmlElement | undefined} element
 * @param {string} name
 */
function textOf(element, name) {
  return child(element, name)?.text ?? "";
}

/** @param {string} text */
function escape(text) {
  return text.replace(/[<>&"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/**
 * @param {string} name
 * @param {string} text
 */
function leaf(name, text) {
  return `<${name}>${escape(text)}</${name}>`;
}

/**
 * @param {string} text
 * @returns {StoredPolicy[]}
 */
export function readPolicies(text) {
  return parseXml(text).children.map((identifier) => {
    const policy = child(identifier, "AccessPolicy");
    return {
      id: textOf(identifier, "Id"),
      start: textOf(policy, "Start"),
      expiry: textOf(policy, "Expiry"),
      permissions: textOf(policy, "Permission"),
    };
  });
}

/** @param {StoredPolicy[]} policies */
export function writePolicies(policies) {
  const written = policies.map(({ id, start, expiry, permissions }) => {
    /** @type {[string, string][]} */
    const fields = [["Start", start], ["Expiry", expiry], ["Permission", permissions]];
    const policy = fields.filter(([, value]) => value).map(([name, value]) => leaf(name, value)).join("");
    return `<SignedIdentifier>${leaf("Id", id)}<AccessPolicy>${policy}</AccessPolicy></SignedIdentifier>`;
  });
  return `<?xml version="1.0" encoding="utf-8"?><SignedIdentifiers>${written.join("")}</SignedIdentifiers>`;
}

/**
 * @param {string} text
 * @returns {TableRetention | null} null if entities do not expire
 */
export function readTableRetention(text) {
  const root = parseXml(text);
  return child(root, "Seconds") ? { property: textOf(root, "Property"), seconds: Number(textOf(root, "Seconds")) } : null;
}

/** @param {TableRetention | null} retention */
export function writeTableRetention(retention) {
  const property = retention?.property ? leaf("Property", retention.property) : "";
  const content = retention ? `${property}${leaf("Seconds", String(retention.seconds))}` : "";
  return `<?xml version="1.0" encoding="utf-8"?><TableRetention>${content}</TableRetention>`;
}

/**
 * @param {string} text
 * @returns {TableIndex[]}
 */
export function readIndexes(text) {
  return parseXml(text).children.map((index) => ({
    property: textOf(index, "Property"),
    isReady: textOf(index, "State") === "ready",
  }));
}

/** @param {string[]} properties */
export function writeIndexes(properties) {
  const indexes = properties.map((property) => `<TableIndex>${leaf("Property", property)}</TableIndex>`);
  return `<?xml version="1.0" encoding="utf-8"?><TableIndexes>${indexes.join("")}</TableIndexes>`;
}

/**
 * @param {string} text
 * @returns {ServiceProperties}
 */
export function readProperties(text) {
  const root = parseXml(text);
  const logging = child(root, "Logging");
  return {
    logging: {
      read: isTrue(logging, "Read"),
      write: isTrue(logging, "Write"),
      delete: isTrue(logging, "Delete"),
      retention: readRetention(logging),
    },
    hourMetrics: readMetrics(child(root, "HourMetrics")),
    minuteMetrics: readMetrics(child(root, "MinuteMetrics")),
    cors: (child(root, "Cors")?.children ?? []).map((rule) => ({
      origins: textOf(rule, "AllowedOrigins"),
      methods: textOf(rule, "AllowedMethods"),
      headers: textOf(rule, "AllowedHeaders"),
      exposedHeaders: textOf(rule, "ExposedHeaders"),
      maxAgeSeconds: Number(textOf(rule, "MaxAgeInSeconds")),
    })),
  };
}

/**
 * @param {XmlElement | undefined} element
 * @param {string} name
 */
function isTrue(element, name) {
  return textOf(element, name).trim().toLowerCase() === "true";
}

/**
 * @param {XmlElement | undefined} element
 * @returns {Metrics}
 */
function readMetrics(element) {
  return {
    enabled: isTrue(element, "Enabled"),
    includeApis: isTrue(element, "IncludeAPIs"),
    retention: readRetention(element),
  };
}

/**
 * @param {XmlElement | undefined} element
 * @returns {Retention}
 */
function readRetention(element) {
  const retention = child(element, "RetentionPolicy");
  return { enabled: isTrue(retention, "Enabled"), days: Number(textOf(retention, "Days") || "7") };
}

/** @param {ServiceProperties} properties */
export function writeProperties({ logging, hourMetrics, minuteMetrics, cors }) {
  const sections = [
    `<Logging>${leaf("Version", "1.0")}${leaf("Delete", String(logging.delete))}${leaf("Read", String(logging.read))}`,
    `${leaf("Write", String(logging.write))}${writeRetention(logging.retention)}</Logging>`,
    `<HourMetrics>${writeMetrics(hourMetrics)}</HourMetrics>`,
    `<MinuteMetrics>${writeMetrics(minuteMetrics)}</MinuteMetrics>`,
    `<Cors>${cors.map(writeRule).join("")}</Cors>`,
  ];
  const root = "StorageServiceProperties";
  return `<?xml version="1.0" encoding="utf-8"?><${root}>${sections.join("")}</${root}>`;
}

/** @param {Metrics} metrics */
function writeMetrics({ enabled, includeApis, retention }) {
  const apis = enabled ? leaf("IncludeAPIs", String(includeApis)) : "";
  return `${leaf("Version", "1.0")}${leaf("Enabled", String(enabled))}${apis}${writeRetention(retention)}`;
}

/** @param {Retention} retention */
function writeRetention({ enabled, days }) {
  const kept = enabled ? leaf("Days", String(days)) : "";
  return `<RetentionPolicy>${leaf("Enabled", String(enabled))}${kept}</RetentionPolicy>`;
}

/** @param {CorsRule} rule */
function writeRule(rule) {
  const fields = [
    leaf("AllowedOrigins", rule.origins),
    leaf("AllowedMethods", rule.methods),
    leaf("AllowedHeaders", rule.headers),
    leaf("ExposedHeaders", rule.exposedHeaders),
    leaf("MaxAgeInSeconds", String(rule.maxAgeSeconds)),
  ];
  return `<CorsRule>${fields.join("")}</CorsRule>`;
}

/**
 * @param {string} text
 * @returns {{status: string, lastSyncTime: string}}
 */
export function readStatistics(text) {
  const replication = child(parseXml(text), "GeoReplication");
  return { status: textOf(replication, "Status"), lastSyncTime: textOf(replication, "LastSyncTime") };
}
