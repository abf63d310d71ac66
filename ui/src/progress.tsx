// Progress of a connector's current runs: records and bytes delivered, rate, and time left to the end of the input.
import { Box, Text } from "@chakra-ui/react";
import type { Progress } from "./api";
import { bytes, count, duration, quantity } from "./format";

export function LiveProgress({ progress: { records, bytes: size, rate, left, seconds_left, left_unit, failed } }: { progress: Progress }) {
  if (records === null) return null;
  const done = left_unit === "bytes" ? size : records;
  const percent = left === null || done === null || done + left === 0 ? null : Math.floor((100 * done) / (done + left));
  const facts = [
    `${count(records)} ${records === 1 ? "record" : "records"}`,
    failed ? `${count(failed)} refused` : "",
    size === null ? "" : bytes(size),
    rate === null ? "" : `${count(rate)} records/s`,
    left === null ? "" : left ? `${quantity(left, left_unit)} left` : "nothing left",
    seconds_left === null ? "" : `${duration(seconds_left)} at this rate`,
  ].filter(Boolean);
  return (
    <Box role="group" aria-label="Progress of current runs" mb={2} maxW="720px">
      {percent === null ? null : (
        <Box role="progressbar" aria-label="Delivered" aria-valuemin={0} aria-valuemax={100} aria-valuenow={percent} bg="bg.emphasized" borderRadius="full" height="8px" overflow="hidden">
          <Box bg="blue.solid" height="100%" width={`${percent}%`} />
        </Box>
      )}
      <Text fontSize="sm">{`Delivered: ${facts.join(" · ")}`}</Text>
    </Box>
  );
}
